"""The release in a cluster: installed, looked at, its certificates, access for runs.

cli           `zonequake install`, `uninstall`, `access`, `version`, `doctor`
install       the chart, by a real helm
certificates  shown, renewed and replaced while everything runs
"""
