# One image with all programs: static binaries in an empty root file system, which can be read-only. They run as a
# non-root user, and write only to the folders that a configuration names.
#
#   docker build -t conclave:0.1.0 .
FROM golang:1.26.8 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags=-s -o /out/ ./cmd/aggregator ./cmd/conclave ./cmd/student ./cmd/teacher

FROM scratch
COPY --from=build /out/ /
COPY LICENSE NOTICE /
USER 65532:65532
ENTRYPOINT ["/conclave"]
