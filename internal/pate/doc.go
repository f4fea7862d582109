// Package pate analyses queries of votes as the PATE papers do. The calculator shows
// its figures; no run's guarantee rests on them.
//
// [DataDependent] returns the cost of queries for the votes that were cast. It uses bounds for one query of each
// mechanism, and the moments accountant of PATE-GAN, [PATEGANMoments]. The figure depends on the votes, so it is
// as private as they are, and it is not differential privacy.
//
// [TeachersToSurvive] does not depend on votes: it returns how many teachers must agree for their class to win.
// [ParseEvents] reads a file of events, with or without votes.
package pate
