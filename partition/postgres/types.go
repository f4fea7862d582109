package postgres

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/conclave-dp/conclave/partition"
)

// kinds are those of PostgreSQL's own types by their numbers in its pg_type.dat. A
// domain is described as the type beneath it.
var kinds = map[uint32]partition.CellKind{
	16: partition.TruthValues, // boolean
	// smallint, integer, bigint
	21: partition.WholeNumbers, 23: partition.WholeNumbers, 20: partition.WholeNumbers,
	// real, double precision, numeric
	700: partition.Numbers, 701: partition.Numbers, 1700: partition.Numbers,
	// text, varchar, char(n), name, uuid, a literal of no type
	25: partition.Texts, 1043: partition.Texts, 1042: partition.Texts, 19: partition.Texts, 2950: partition.Texts, 705: partition.Texts,
	// date, time, timestamp without and with time zone
	1082: partition.Times, 1083: partition.Times, 1114: partition.Times, 1184: partition.Times,
}

// describe tells what the columns of a query hold. Of a type that is not in kinds the catalog
// says what it is: enums and texts of extensions, such as citext, are texts; the rest is
// refused by name.
func describe(ctx context.Context, conn *pgconn.PgConn, fields []pgconn.FieldDescription) ([]partition.SourceColumn, error) {
	columns := make([]partition.SourceColumn, len(fields))
	for i, f := range fields {
		columns[i].Name = f.Name
		kind, known := kinds[f.DataTypeOID]
		if !known {
			number := []byte(strconv.FormatUint(uint64(f.DataTypeOID), 10))
			got := conn.ExecParams(ctx, "select typcategory, pg_catalog.format_type(oid, null) from pg_catalog.pg_type where oid = $1::pg_catalog.oid",
				[][]byte{number}, nil, nil, nil).Read()
			if got.Err != nil {
				return nil, queryError("ask for the types of the columns", got.Err)
			}
			kind, columns[i].What = partition.Unreadable, "a type that is not known"
			if len(got.Rows) == 1 {
				columns[i].What = "values of the type " + string(got.Rows[0][1])
				if category := string(got.Rows[0][0]); category == "E" || category == "S" {
					kind = partition.Texts
				}
			}
		}
		columns[i].Kind = kind
	}
	return columns, nil
}

// text is a cell as CSV has it; null is empty.
func text(k partition.CellKind, raw []byte) string {
	if k == partition.TruthValues && len(raw) == 1 {
		switch raw[0] {
		case 't':
			return "1"
		case 'f':
			return "0"
		}
	}
	return string(raw)
}
