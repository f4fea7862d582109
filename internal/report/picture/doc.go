// Package picture draws what a report shows of rows: columns, how they go together, rows as
// points, and images. Data (Columns, NewCorrelations, NewPanel, ContactSheet) is taken from tables;
// drawings (NewCard, NewHeatMaps, NewScatter, NewSheets) are places and paths that a template of
// the report puts into its page.
package picture
