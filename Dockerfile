# edgepack itself, for machines that it does not run on, such as those with macOS and Windows (docs/howto/docker.md).
# `python3-venv` brings the Python, `libpython3.11` what bundles of `linux-x86` freeze, `binutils` objcopy.
FROM debian:12-slim
# Debian keeps one version of each: a pinned one could not be had after the next.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --no-install-recommends --yes binutils ca-certificates libpython3.11 python3-venv \
    && rm -rf /var/lib/apt/lists/*
COPY requirements/build.txt /opt/build.txt
RUN python3 -m venv /opt/edgepack \
    && /opt/edgepack/bin/pip install --no-cache-dir --require-hashes --requirement /opt/build.txt
COPY LICENSE MANIFEST.in README.md pyproject.toml setup.py /opt/source/
COPY plugins /opt/source/plugins
COPY src /opt/source/src
COPY targets /opt/source/targets
RUN /opt/edgepack/bin/pip install --no-cache-dir --no-deps --no-build-isolation /opt/source \
    && rm -rf /opt/source \
    && mkdir --mode 1777 /home/edgepack /work
# The cache, and what was made here: any user writes it, so that bundles belong to the one who runs the container.
ENV HOME=/home/edgepack PATH=/opt/edgepack/bin:/usr/bin:/bin
VOLUME /home/edgepack
WORKDIR /work
ENTRYPOINT ["edgepack"]
CMD ["--help"]
