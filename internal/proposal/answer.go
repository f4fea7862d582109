package proposal

import (
	"errors"
	"slices"
	"strings"

	"github.com/conclave-dp/conclave/partition"
	"github.com/conclave-dp/conclave/partition/dates"
)

// Set fills in a field of [Column.Unfinished] with a person's answer, categories and prefixes separated by |.
// An empty answer leaves TODO. When nothing is left to fill in, the person is responsible for the column, which
// then has no source. Errors say what is wrong with the answer, and what to do.
func (c *Column) Set(field, answer string) error {
	if answer = strings.TrimSpace(answer); answer == "" {
		return nil
	}
	var err error
	switch field {
	case "lower", "upper":
		err = c.setBound(field, answer)
	case "format":
		if _, err = dates.ParseLayout(answer); err == nil {
			c.Format = answer
		}
	case "categories":
		c.Categories, err = split(answer)
	case "prefixes":
		c.Prefixes, err = split(answer)
	}
	if err == nil && len(c.Unfinished()) == 0 {
		c.Source, c.Hint = "", ""
	}
	return err
}

func (c *Column) setBound(field, answer string) error {
	lower, upper := c.Lower, c.Upper
	if field == "lower" {
		lower = answer
	} else {
		upper = answer
	}
	if c.Kind == kindDate || c.Kind == kindDatetime {
		if _, err := dates.ReadISO(answer); err != nil {
			return errors.New("not a date; write it as 2024-02-29")
		}
	} else if _, fault := partition.ParseNumber(answer); fault != nil {
		return errors.New("not a plain number; write it as 12 or 1.5")
	}
	if lower != partition.Todo && upper != partition.Todo && !c.rising(lower, upper) {
		return errors.New("lower must be below upper; answer again")
	}
	if c.Lower, c.Upper = lower, upper; c.Kind == kindInteger {
		c.Lower, c.Upper = roundOutward(lower, upper)
	}
	return nil
}

// rising tells whether the bounds rise, if both can be read.
func (c *Column) rising(lower, upper string) bool {
	if c.Kind == kindDate || c.Kind == kindDatetime {
		from, _ := dates.ReadISO(lower)
		to, _ := dates.ReadISO(upper)
		return from < to
	}
	from, _ := partition.ParseNumber(lower)
	to, _ := partition.ParseNumber(upper)
	return from < to
}

// split separates values, which must be different and not empty.
func split(answer string) (values []string, err error) {
	for value := range strings.SplitSeq(answer, "|") {
		value = strings.TrimSpace(value)
		if value == "" || !oneLine(value) || slices.Contains(values, value) {
			return nil, errors.New("a value is empty, listed twice, or has a control character; write them as F|M")
		}
		values = append(values, value)
	}
	return values, nil
}
