package partition

// tens are the powers of ten that a float64 holds exactly.
var tens = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// shortDecimal parses a sign and at most 15 digits with at most one point, and refuses any other text. The digits and
// the power of ten are then exact, so their quotient is rounded once, as in strconv.ParseFloat.
func shortDecimal(text string) (v float64, ok bool) {
	negative := false
	if text != "" && (text[0] == '-' || text[0] == '+') {
		negative, text = text[0] == '-', text[1:]
	}
	if len(text) > len(tens) {
		return 0, false
	}
	digits, whole, point := 0, int64(0), -1
	for i := 0; i < len(text); i++ {
		switch d := text[i] - '0'; {
		case d <= 9:
			whole = whole*10 + int64(d)
			digits++
		case text[i] == '.' && point < 0:
			point = i
		default:
			return 0, false
		}
	}
	if digits == 0 || digits >= len(tens) {
		return 0, false
	}
	if v = float64(whole); point >= 0 {
		v /= tens[len(text)-1-point]
	}
	if negative {
		v = -v
	}
	return v, true
}

// Number reports whether the column's cells are written as decimal numbers.
func (c *Column) Number() bool {
	kind := c.Declared()
	return kind == Continuous || kind == Integer || kind == Binary
}

// category is the cell of a category. A few categories are compared one by one, which is faster than a map.
func (c *Column) category(text string) (cell int, ok bool) {
	if len(c.Categories) > 8 {
		cell, ok = c.index[text]
		return cell, ok
	}
	for i, category := range c.Categories {
		if category == text {
			return i, true
		}
	}
	return 0, false
}
