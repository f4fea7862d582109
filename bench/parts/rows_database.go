package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/conclave-dp/conclave/internal/cli"
	"github.com/conclave-dp/conclave/internal/question"
	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/postgres"
	"github.com/conclave-dp/conclave/partition/tabular"
)

// dsnVariable names the database, in which a table conclave_rows is made and removed.
const dsnVariable = "ROWS_DSN"

// createTable makes rows like those of writeTable.
const createTable = `drop table if exists conclave_rows; select setseed(0.5);
	create unlogged table conclave_rows as select
	floor(100 * random())::int as age_0, floor(100 * random())::int as age_1, floor(100 * random())::int as age_2,
	floor(100 * random())::int as age_3, (random() < 0.5)::int as flag_0, (random() < 0.5)::int as flag_1,
	(random() < 0.5)::int as flag_2, (random() < 0.5)::int as flag_3, (random() < 0.5)::int as flag_4,
	(random() < 0.5)::int as flag_5, (random() < 0.5)::int as flag_6,
	case when random() < 0.98 then floor(1000 * random()) / 100 end as dose_0,
	case when random() < 0.98 then floor(1000 * random()) / 100 end as dose_1,
	case when random() < 0.98 then floor(1000 * random()) / 100 end as dose_2,
	case when random() < 0.98 then floor(1000 * random()) / 100 end as dose_3,
	chr(97 + floor(6 * random())::int) as ward_0, chr(97 + floor(6 * random())::int) as ward_1,
	chr(97 + floor(6 * random())::int) as ward_2, chr(97 + floor(6 * random())::int) as ward_3,
	chr(97 + floor(6 * random())::int) as ward_4, chr(97 + floor(6 * random())::int) as ward_5,
	(random() < 0.5)::int as died
	from generate_series(1, %d) as i; analyze conclave_rows`

// database measures a start and the largest sum of marginals, by a database that counts and by a cursor.
func database(ctx context.Context, rows int) (err error) {
	conn, err := pgconn.Connect(ctx, os.Getenv(dsnVariable))
	if err != nil {
		return fmt.Errorf("connect to the database of %s: %w", dsnVariable, err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, fmt.Sprintf(createTable, rows)).ReadAll(); err != nil {
		return fmt.Errorf("make the table: %w", err)
	}
	defer func() {
		if _, removed := conn.Exec(context.WithoutCancel(ctx), "drop table conclave_rows").ReadAll(); err == nil {
			err = removed
		}
	}()
	dir, err := os.MkdirTemp("", "rows")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "table")
	if err := os.WriteFile(schemaPath(path), []byte(tableSchema), 0o600); err != nil {
		return err
	}
	s, err := partition.LoadSchema(schemaPath(path))
	if err != nil {
		return err
	}
	c := postgres.Config{DSNEnv: dsnVariable, Query: "select * from conclave_rows", Timeout: 10 * time.Hour}
	say := func(what string, begun time.Time, used float64) error {
		r := result{What: what, Rows: int64(rows), Cores: runtime.GOMAXPROCS(0), Seconds: time.Since(begun).Seconds(),
			CPU: cpu() - used}
		r.PerCore = float64(rows) / r.CPU
		if r.PeakMiB, err = peak(); err != nil {
			return err
		}
		return cli.PrintJSON(r)
	}
	begun, used := time.Now(), cpu()
	pushed, err := postgres.OpenPushed(ctx, s, c, tabular.Options{}, false)
	if err != nil {
		return err
	}
	if err := say("pushdown structure", begun, used); err != nil {
		return err
	}
	begun, used = time.Now(), cpu()
	key := partition.Key{1}
	if err := pushed.Check(ctx); err != nil {
		return err
	}
	sum, err := pushed.SumRows(ctx, key.ForDatabase())
	if err == nil {
		err = say("pushdown start", begun, used)
	}
	if err != nil {
		return err
	}
	begun, used = time.Now(), cpu()
	counted := question.NewPushedSite(question.NewPublic(s, 1, 1), pushed.Units(), "",
		pushed.Counting(key.ForDatabase(), sum))
	first, err := largest(counted, s, path, marginals)
	if err == nil {
		err = say("pushdown marginals", begun, used)
	}
	if err != nil {
		return err
	}
	begun, used = time.Now(), cpu()
	cursor, err := postgres.OpenCursor(ctx, s, c, tabular.Options{}, false)
	if err != nil {
		return err
	}
	_, held, err := cursor.CountUnits(ctx, key)
	if err == nil {
		err = say("cursor start", begun, used)
	}
	if err != nil {
		return err
	}
	begun, used = time.Now(), cpu()
	site := question.NewStreamedSite(question.NewPublic(s, 1, 1), cursor.Held(key, held), nil, rows, "")
	second, err := largest(site, s, path, marginals)
	if err != nil {
		return err
	}
	for i := range first {
		if first[i] != second[i] {
			return fmt.Errorf("entry %d is %d by the database, and %d by a cursor", i, first[i], second[i])
		}
	}
	return say("cursor marginals", begun, used)
}
