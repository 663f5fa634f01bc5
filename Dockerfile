# syntax=docker/dockerfile:1
# The image of the scheduler. Build from the top of the repository:
#   docker build --build-arg FLUXQUEUE_COMMIT=$(git rev-parse --short=12 HEAD) -t localhost/fluxqueue:dev .

FROM rust:1.95.0-bookworm AS build
WORKDIR /src
COPY . .
# The build context has no .git: build.rs takes the commit from here, for `fluxqueue --version`.
ARG FLUXQUEUE_COMMIT=unknown
# The caches stay with the builder, so the binary is copied out of them in the same step.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    FLUXQUEUE_COMMIT=${FLUXQUEUE_COMMIT} cargo build --release --locked --bin fluxqueue \
    && cp target/release/fluxqueue /fluxqueue

# With libgcc and libstdc++ (a system libreapi_cli is C++), without a shell or a package manager.
FROM gcr.io/distroless/cc-debian12:nonroot
ARG FLUXQUEUE_COMMIT=unknown
LABEL org.opencontainers.image.title="fluxqueue" \
      org.opencontainers.image.description="A batch scheduler for Kubernetes: gangs, queues and a Fluxion resource graph" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.revision="${FLUXQUEUE_COMMIT}"
COPY LICENSE /licenses/fluxqueue/LICENSE
COPY --from=build /fluxqueue /usr/local/bin/fluxqueue
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/fluxqueue"]
CMD ["run"]
