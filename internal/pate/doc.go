// Package pate analyses queries of votes as the PATE papers do. The calculator shows
// its figures; no run's guarantee rests on them.
//
// [DataDependent] says what queries cost for the votes that were cast, from the bounds
// of one query of each mechanism and the moments accountant of PATE-GAN,
// [PATEGANMoments]. Such a figure depends on the votes. It is as private as they are
// and is no differential privacy.
//
// [TeachersToSurvive] depends on no votes: it counts how many teachers must agree for
// their class to win. [ParseEvents] reads a file of events, with or without votes.
package pate
