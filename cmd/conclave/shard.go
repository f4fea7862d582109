package main

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/conclave-dp/conclave/partition"
)

// maxShards is far above the nodes of a site.
const maxShards = 10000

// shard cuts a site's file into one for each of its nodes.
func shard(ctx context.Context, args []string) error {
	f := flags("shard", "shard --schema FILE --data FILE --shards N --out DIR")
	schemaPath := f.String("schema", "", "the public schema.yaml")
	data := f.String("data", "", "the site's rows")
	n := f.Int("shards", 0, "number of shards, one for each node")
	out := f.String("out", "", "folder for shard-0.csv.gz and so on; they are as private as the rows")
	format := formatFlag(f)
	if err := parse(f, args); err != nil {
		return err
	}
	if *schemaPath == "" || *data == "" || *out == "" {
		return misuse(f, "--schema, --data, --shards and --out are needed")
	}
	if *n < 1 || *n > maxShards {
		return misuse(f, "--shards %d: use 1 to %d", *n, maxShards)
	}
	schema, err := partition.LoadSchema(*schemaPath)
	if err != nil {
		return err
	}
	table, err := partition.Read(schema, *data, partition.ReadOptions{})
	if err != nil {
		return err
	}
	shards, err := table.Shards(*n)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*out, 0o700); err != nil {
		return fmt.Errorf("create the folder of shards: %w", err)
	}
	paths := make([]string, *n)
	for i := range paths {
		paths[i] = filepath.Join(*out, fmt.Sprintf("shard-%d.csv.gz", i))
		// All before the first is written: half a set beside another would share persons.
		if _, err := os.Lstat(paths[i]); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s exists; name another folder, or move the earlier shards away", paths[i])
		}
	}
	for i, path := range paths {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := writeShard(path, shards[i]); err != nil {
			return err
		}
	}
	if *format == "json" {
		return printJSON(map[string]any{"shards": paths})
	}
	fmt.Printf("%d shards in %s, for the nodes of one site; no privacy unit is in two of them\n", *n, *out)
	return nil
}

// writeShard writes a gzipped CSV file for its owner alone.
func writeShard(path string, t *partition.Table) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write a shard: %w", err)
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(path)))
		}
	}()
	zipped := gzip.NewWriter(f)
	if err := partition.WriteCSV(zipped, t); err != nil {
		return err
	}
	if err := zipped.Close(); err != nil {
		return err
	}
	return f.Sync()
}
