package provision

// Template is a study.yaml to be filled in. The commands ask for what it leaves empty.
const Template = `# What the institutions of a study agree on, before any of them answers a question.
# Its text is the study: any change makes it another study.
name: my-study
# For people, who read this before they take part.
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
# The maximum number of sites at which one person may be. With 1, no person is at two sites.
overlap: 1
# The total budget of all runs of the study. filter is gdp or rdp.
budget: {epsilon: 1, delta: 1e-6, filter: gdp}
# What runs may use: pipelines marginals, embed, pategan, gpate, dpgan; stages after training selections, fit,
# sampled, relabel, quality. docs/config-study.md explains each field.
pipelines: [marginals]
stages: []
# true: the aggregator sees only noisy totals, and not the sums of each site.
masked: false

# The host names or addresses of the aggregator, without ports, and its TCP port.
aggregator: {hosts: [], port: 7443}
# The institutions, in small letters. Each divides its records into this number of parts, called teachers. A quorum
# is a share of all teachers.
sites: []
teachers: 100
# Who may submit runs.
students: []
`
