package partition

// category is the cell of a category. A few are compared one by one, which is faster than a map.
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
