-- The tables of the OMOP Common Data Model 5.4 that person.sql and concepts.sql read, with the columns that they name.
-- Names and types are those of https://ohdsi.github.io/CommonDataModel/cdm54.html. A real database has these tables
-- already, with more columns; this file is for a trial.
create table person (
    person_id integer primary key,
    gender_concept_id integer not null,
    year_of_birth integer not null,
    month_of_birth integer,
    day_of_birth integer,
    race_concept_id integer not null,
    ethnicity_concept_id integer not null
);
create table condition_occurrence (
    condition_occurrence_id integer primary key,
    person_id integer not null references person,
    condition_concept_id integer not null,
    condition_start_date date not null,
    condition_end_date date,
    condition_type_concept_id integer not null
);
create table measurement (
    measurement_id integer primary key,
    person_id integer not null references person,
    measurement_concept_id integer not null,
    measurement_date date not null,
    measurement_type_concept_id integer not null,
    value_as_number numeric,
    unit_concept_id integer
);
create table concept_ancestor (
    ancestor_concept_id integer not null,
    descendant_concept_id integer not null,
    min_levels_of_separation integer not null,
    max_levels_of_separation integer not null
);
create table concept (
    concept_id integer primary key,
    concept_name varchar(255) not null,
    domain_id varchar(20) not null,
    vocabulary_id varchar(20) not null,
    concept_code varchar(50) not null,
    standard_concept varchar(1),
    invalid_reason varchar(1)
);
