package postgres

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/conclave-dp/conclave/partition/tabular"
)

// Type numbers whose texts or numbers a cast would change.
const (
	oidBool, oidChar            = 16, 1042
	oidFloat4, oidFloat8        = 700, 701
	oidNumeric           uint32 = 1700
)

// kinds are the kinds of PostgreSQL's own types by their numbers in its pg_type.dat. A domain is described as its
// base type.
var kinds = map[uint32]tabular.CellKind{
	16: tabular.TruthValues, // boolean
	// smallint, integer, bigint
	21: tabular.WholeNumbers, 23: tabular.WholeNumbers, 20: tabular.WholeNumbers,
	// real, double precision, numeric
	700: tabular.Numbers, 701: tabular.Numbers, 1700: tabular.Numbers,
	// text, varchar, char(n), name, uuid, a literal of no type
	25: tabular.Texts, 1043: tabular.Texts, 1042: tabular.Texts, 19: tabular.Texts, 2950: tabular.Texts,
	705: tabular.Texts,
	// date, time, timestamp without and with time zone
	1082: tabular.Times, 1083: tabular.Times, 1114: tabular.Times, 1184: tabular.Times,
}

// describe returns what the columns of a query contain. For types that are not in kinds it asks the catalog: enums
// and texts of extensions, such as citext, are texts; others are refused by name.
func describe(ctx context.Context, conn *pgconn.PgConn, fields []pgconn.FieldDescription) ([]tabular.SourceColumn,
	error) {
	columns := make([]tabular.SourceColumn, len(fields))
	for i, f := range fields {
		columns[i].Name = f.Name
		kind, known := kinds[f.DataTypeOID]
		if !known {
			number := []byte(strconv.FormatUint(uint64(f.DataTypeOID), 10))
			got := conn.ExecParams(ctx, "select typcategory, pg_catalog.format_type(oid,"+
				" null) from pg_catalog.pg_type where oid = $1::pg_catalog.oid",
				[][]byte{number}, nil, nil, nil).Read()
			if got.Err != nil {
				return nil, queryError("ask for the types of the columns", got.Err)
			}
			kind, columns[i].What = tabular.Unreadable, "a type that is not known"
			if len(got.Rows) == 1 {
				columns[i].What = "values of the type " + string(got.Rows[0][1])
				if category := string(got.Rows[0][0]); category == "E" || category == "S" {
					kind = tabular.Texts
				}
			}
		}
		columns[i].Kind = kind
	}
	return columns, nil
}

// text is a cell as in CSV; null is empty.
func text(k tabular.CellKind, raw []byte) string {
	if k == tabular.TruthValues && len(raw) == 1 {
		switch raw[0] {
		case 't':
			return "1"
		case 'f':
			return "0"
		}
	}
	return string(raw)
}
