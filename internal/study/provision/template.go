package provision

// Template is a study.yaml to be filled in. The commands ask for what it leaves empty.
const Template = `# What the institutions of a study agree on, before any of them answers a question.
# Its text is the study: whoever changes a letter has another one.
name: my-study
# Lines for people, who read them before they take part.
title: ""
purpose: ""
# The number of the permit, or of the ethics committee's vote.
permit: ""
contact: ""
# The last day of the study, in UTC, such as 2027-06-30.
expires: ""

# The dataset's name, and its public schema (conclave schema propose). The path is relative to this file.
dataset: my-study
schema: schema.yaml
# What is protected: record, or the schema's column of role unit, for all records of one person.
unit: record
# At how many of the sites one person may be at most. With 1 the sites' persons are disjoint.
overlap: 1
# What all runs of the study may spend together, ever. filter is gdp or rdp.
budget: {epsilon: 1, delta: 1e-6, filter: gdp}
# What runs may ask: of marginals, embed, pategan, gpate and dpgan; and after training, of selections, fit, sampled and
# quality.
pipelines: [marginals]
stages: []
# true: the aggregator sees totals with their noise alone, and not the sums of each site.
masked: false

# The names or addresses that the aggregator is dialled by, without ports, and its TCP port.
aggregator: {hosts: [], port: 7443}
# The institutions, with small letters; how many teachers each has, or parts that a quorum is a share of.
sites: []
teachers: 100
# Who may submit runs.
students: []
`
