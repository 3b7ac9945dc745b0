module zonequake.io/probe

go 1.24.0
