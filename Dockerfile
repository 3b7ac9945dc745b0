# The images of the data node (and the load) and of the operator:
#
#     docker build --build-arg EXTRA=store    --tag zonequake/store:dev .
#     docker build --build-arg EXTRA=operator --tag zonequake/operator:dev .
#
# `zonequake images build` builds the same file without Docker, on a base made from the machine's
# own package source, with wheels beside the lock file, so that the build needs no network.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS dependencies
ARG EXTRA
# For instance "--no-index --find-links /build": install from wheels in requirements/ alone.
ARG PIP_OPTIONS=""
COPY requirements /build
RUN python3 -m venv /opt/zonequake \
    && /opt/zonequake/bin/python -m pip install --no-cache-dir --require-hashes ${PIP_OPTIONS} \
       --requirement "/build/${EXTRA}.txt" \
    && /opt/zonequake/bin/python -m pip uninstall --quiet --yes pip setuptools
COPY operator workloads /app/
# Each image holds only what it runs: no commands, and not the other one's program.
RUN cd /app && rm -rf zonequake_ctl zonequake_kube \
    && case "${EXTRA}" in \
       operator) rm -rf zonequake_store zonequake_load ;; \
       *) rm -rf zonequake_operator ;; \
       esac

FROM ${BASE}
# tini is PID 1, so that the process below it can be killed from inside its container.
RUN test -x /usr/bin/tini \
    || (apt-get update && apt-get install --yes --no-install-recommends procps tini \
        && rm -rf /var/lib/apt/lists/*)
# No process can change its user in here: su, mount and the like lose their set-user-ID bits.
RUN find / -xdev -type f -perm /6000 -exec chmod a-s {} +
COPY --from=dependencies /opt/zonequake /opt/zonequake
COPY --from=dependencies /app /app
# The root file system is read-only when it runs: the byte code is written now or never.
RUN ["/opt/zonequake/bin/python", "-m", "compileall", "-q", "/app"]
ENV PATH=/opt/zonequake/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONPATH=/app \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
ARG EXTRA
# A missing module or system library is found here, and not by a pod that doesn't start.
RUN ["python", "-c", "import importlib, os; importlib.import_module('zonequake_' + os.environ['EXTRA'] + '.__main__')"]
USER 65532:65532
WORKDIR /
ENTRYPOINT ["/usr/bin/tini", "--"]
