package partition

var ParseNamed = parseSchema
