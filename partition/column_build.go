package partition

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/partition/dates"
)

const (
	// maxSpikes bounds the spikes of a column: each gets a cell in every table of the column.
	maxSpikes = 32
	// maxPoints bounds spikes and the numbers in constraints together.
	maxPoints = 256
)

func buildNumber(c *Column, in *columnFile) *schemaProblem {
	if !in.Lower.set || !in.Upper.set {
		return bad("", "a number needs public bounds",
			"give lower: and upper:, from knowledge of the field and not from the rows")
	}
	lower, upper, wrong := in.numbers()
	if wrong != nil {
		return wrong
	}
	c.Lower, c.Upper = lower, upper
	switch {
	case c.Lower >= c.Upper:
		return bad("lower", "lower must be less than upper", "correct the bounds")
	case math.IsInf(c.Upper-c.Lower, 0):
		return bad("lower", "the difference of lower and upper is too large for a number of 64 bits",
			"give bounds that are nearer to each other")
	}
	clip := make([]float64, len(in.Clip))
	for i := range in.Clip {
		if in.Clip[i].number == nil {
			return notNumberField("clip")
		}
		clip[i] = *in.Clip[i].number
	}
	if wrong := c.setClip(in.Clip != nil, clip); wrong != nil {
		return wrong
	}
	lo, hi := c.Range()
	if c.Kind == Integer {
		for _, edge := range []float64{c.Lower, c.Upper, lo, hi} {
			if edge != math.Trunc(edge) || math.Abs(edge) > MaxExact {
				return bad("lower", "the bounds and clip of an integer must be whole numbers up to 2^53",
					"round them outward")
			}
		}
	}
	switch c.Scale = Scale(in.Scale); c.Scale {
	case "":
		c.Scale = Linear
	case Linear:
	case Log:
		if lo < 0 {
			return bad("scale", "scale: log needs a range without negative numbers",
				"raise lower or clip to 0, or use scale: linear")
		}
	default:
		return bad("scale", fmt.Sprintf("unknown scale %q", in.Scale), "use linear or log")
	}
	return c.addSpikes(in.Spikes)
}

// numbers returns the bounds as numbers, 0 for an omitted one.
func (in *columnFile) numbers() (lower, upper float64, wrong *schemaProblem) {
	for _, b := range []struct {
		name string
		in   *bound
		out  *float64
	}{{"lower", &in.Lower, &lower}, {"upper", &in.Upper, &upper}} {
		switch {
		case !b.in.set:
		case b.in.number == nil:
			return 0, 0, notNumberField(b.name)
		default:
			*b.out = *b.in.number
		}
	}
	return lower, upper, nil
}

func notNumberField(name string) *schemaProblem {
	return bad(name, fmt.Sprintf("field %q must be a number", name), "write it as 12 or -0.5")
}

// setClip sets the range that cells are moved into, if there is one.
func (c *Column) setClip(given bool, clip []float64) *schemaProblem {
	if !given {
		return nil
	}
	if len(clip) != 2 || !(clip[0] < clip[1]) || clip[0] < c.Lower || clip[1] > c.Upper {
		return bad("clip", "clip must be [lo, hi] with lo less than hi, inside lower and upper", "correct the range")
	}
	c.Clip = &[2]float64{clip[0], clip[1]}
	return nil
}

func buildBinary(c *Column, in *columnFile) *schemaProblem {
	lower, upper, wrong := in.numbers()
	if wrong != nil {
		return wrong
	}
	if lower != 0 || in.Upper.set && upper != 1 {
		return bad("lower", "a binary column holds 0 and 1", "use lower: 0 and upper: 1, or kind: integer")
	}
	c.Lower, c.Upper = 0, 1
	return nil
}

func buildCategorical(c *Column, in *columnFile) *schemaProblem {
	if len(in.Categories) == 0 {
		return bad("", "a categorical column needs its categories",
			"list all values it may take under categories:, from public knowledge")
	}
	return c.setCategories(in.Categories, "categories", "category", in.Names)
}

// setCategories sets the categories from a list in a field of the schema; what names one item.
func (c *Column) setCategories(list []scalar, field, what string, names []scalar) *schemaProblem {
	c.index = make(map[string]int, len(list))
	for i, category := range list {
		path := fmt.Sprintf("%s[%d]", field, i)
		_, twice := c.index[category.text]
		switch {
		case category.text == "":
			return bad(path, "a "+what+" is empty", "write it in quotes, or use nullable: true for empty cells")
		case strings.ContainsAny(category.text, "\r\n"):
			return bad(path, "a "+what+" has a line break", "rename it in schema and data")
		case twice:
			return bad(path, fmt.Sprintf("%s %q is listed twice", what, category.text), "remove one")
		}
		c.index[category.text] = i
		c.Categories = append(c.Categories, category.text)
	}
	if names != nil && len(names) != len(list) {
		return bad("names", "names must have one entry per "+what, "complete the list or remove it")
	}
	for _, name := range names {
		c.Names = append(c.Names, name.text)
	}
	return nil
}

func buildDate(c *Column, in *columnFile) *schemaProblem {
	d := &dateCells{resolution: dates.Resolution(in.Resolution)}
	if c.declared == Date {
		d.resolution = cmp.Or(d.resolution, dates.Day)
	}
	d.resolution = cmp.Or(d.resolution, dates.Minute)
	allowed := dates.Resolutions
	if c.declared == Date {
		allowed = allowed[slices.Index(allowed, dates.Day):]
	}
	if !slices.Contains(allowed, d.resolution) {
		return bad("resolution", fmt.Sprintf("unknown resolution %q of a %s", d.resolution, c.declared),
			fmt.Sprintf("use one of %v", allowed))
	}
	format := cmp.Or(in.Format, "YYYY-MM-DD")
	if in.Format == "" && !d.resolution.Coarser(dates.Hour) {
		format += " hh:mm"
	}
	if in.Format == "" && d.resolution == dates.Second {
		format += ":ss"
	}
	var err error
	if d.layout, err = dates.ParseLayout(format); err != nil {
		return bad("format", "format "+format, err.Error())
	}
	if !d.layout.Tells(d.resolution) {
		return bad("format", fmt.Sprintf("format %s does not tell one %s from the next", format, d.resolution),
			"add the finer parts to format, or use a coarser resolution")
	}
	return d.setBounds(c, in)
}

// setBounds parses lower, upper and clip.
func (d *dateCells) setBounds(c *Column, in *columnFile) *schemaProblem {
	if !in.Lower.set || !in.Upper.set {
		return bad("", "a "+string(c.declared)+" needs public bounds",
			"give lower: and upper:, from knowledge of the field and not from the rows")
	}
	var wrong *schemaProblem
	if d.lower, wrong = dateBound("lower", in.Lower.text, false); wrong != nil {
		return wrong
	}
	if d.upper, wrong = dateBound("upper", in.Upper.text, true); wrong != nil {
		return wrong
	}
	if !d.resolution.Starts(d.lower) {
		return bad("lower", fmt.Sprintf("lower is not the start of %s, the column's resolution",
			d.resolution.One()), "round it down")
	}
	last := d.resolution.Count(d.lower, d.upper)
	if last < 1 {
		return bad("lower", fmt.Sprintf("upper must be in a later %s than lower", d.resolution), "correct the bounds")
	}
	c.Kind, c.Scale, c.spelled, c.Upper = Integer, Linear, d, float64(last)
	clip := make([]float64, len(in.Clip))
	for i := range in.Clip {
		at, wrong := dateBound("clip", in.Clip[i].text, i > 0)
		if wrong != nil {
			return wrong
		}
		clip[i] = float64(d.resolution.Count(d.lower, at))
	}
	return c.setClip(in.Clip != nil, clip)
}

// dateBound parses a date of the schema. An upper date without a time includes the whole day.
func dateBound(field, text string, whole bool) (dates.Moment, *schemaProblem) {
	at, err := dates.ReadISO(text)
	if err != nil {
		return 0, bad(field, field+" is not a date", "write it as 2024-02-29, or 2024-02-29T23:59")
	}
	if whole && !dates.HasTime(text) {
		at = dates.Day.Add(at, 1) - 1
	}
	return at, nil
}

func (c *Column) addSpikes(spikes []bound) *schemaProblem {
	if len(spikes) > maxSpikes {
		return bad("spikes", fmt.Sprintf("%d spikes; the maximum is %d", len(spikes), maxSpikes),
			"keep only frequent values")
	}
	for i := range spikes {
		if spikes[i].number == nil {
			return notNumberField("spikes")
		}
		if wrong := c.addPoint(*spikes[i].number); wrong != "" {
			return bad(fmt.Sprintf("spikes[%d]", i), "a spike "+wrong, "list values that the column may have")
		}
	}
	return nil
}

// addPoint adds a number to the points, or returns what is wrong with it.
func (c *Column) addPoint(v float64) (wrong string) {
	lo, hi := c.Range()
	switch at, there := slices.BinarySearch(c.Points, v+0); {
	case !(v >= lo && v <= hi):
		return "is outside the bounds of the column"
	case c.Kind == Integer && v != math.Trunc(v):
		return "is not a whole number"
	case there:
	case len(c.Points) == maxPoints:
		return fmt.Sprintf("exceeds the maximum of %d numbers for a column", maxPoints)
	default:
		// Columns of a repeat share the array.
		c.Points = slices.Insert(slices.Clone(c.Points), at, v+0)
	}
	return ""
}
