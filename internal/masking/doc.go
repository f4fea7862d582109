// Package masking adds up vectors of several sites so that who adds sees the noisy total and nothing else.
// It is the protocol of Bonawitz and others (2017) without secret sharing: a sum opens if all whose
// answers are in it agree, and else not at all. The noise is drawn by the sites, in shares.
//
// # The protocol
//
// A [Group] stands in the run's spec: the members, each with the fingerprint of its certificate's key, the
// quorum q, and how many of them may collude, c. Vectors are of 64-bit numbers, which are added modulo 2^64.
//
//  0. Each member makes an X25519 key for the run, signed with its certificate's key ([Party.Key]). It lives in
//     the memory of its process. A member that starts again has another one, so that nothing which was asked
//     of it before can be asked again: no answer, no tag, no seed.
//  1. The aggregator announces an attempt at a round ([Terms]): what is asked, the noise, and the members S that
//     are there, with their signed keys. Each checks all of it, and answers with
//     x + e + PRG(b) + sum over its partners of +-PRG(s), where x is its vector, e its share of the noise
//     ([gnmax.Share]), b 32 fresh random bytes, and s a seed that it shares with the partner: HKDF of what
//     their run keys give them and of the hash of the terms. Of two the one whose site comes first adds, the other
//     subtracts: in the sum over S all these masks cancel. Partners are some of S, enough for what follows.
//  2. The aggregator names U, those that answered. Each of them agrees to it ([Party.Agree]): to one U of an attempt,
//     with itself and a quorum in it. It tells each other member of U so by a tag, HMAC of the terms and of U under a
//     key that only the two can derive, another one each way. The aggregator hands the tags on.
//  3. Each that has the right tags of all others in U for the U that it agreed to itself has its site charged ([Pay]).
//     Then it reveals its b, and the seeds that it shares with partners in S minus U ([Party.Reveal]). With those of
//     all of U the aggregator opens the sum ([Terms.Open]).
//
// # Why this is private
//
// Against the aggregator with up to c of the members, which hand it all that they know; computational, by the
// hardness of X25519 and AES:
//
//   - One answer is uniform. Of an honest member b is revealed for one U of one attempt, or never. Without b its
//     answer is hidden by PRG(b). With b it is hidden by the seeds that it shares with its honest partners
//     in U, which nobody reveals: a member reveals seeds of S minus U for the U that it agreed to, and no two
//     honest members of one U that revealed have agreed to different ones, as each verified the tags of all
//     others. A right tag from an honest i to an honest j is from i: nobody else has the secret of the two, and j
//     makes none with the key from i to j. i makes tags for one U of an attempt, and terms and U are in the tag.
//   - What is opened is the sum over all honest members of U, and no part of it. They are the vertices of a graph
//     whose edges are pairs of partners. It is connected, whoever colludes and whoever is lost: at most c collude and
//     at most |S| - q are lost, and c + |S| - q members removed from all of S leave it in one piece (partners.go). The
//     mask of an edge is added to one answer and subtracted from another. So any answers with the same sum come about
//     equally often: on a tree in the graph there is one choice of masks for each, whatever the other masks are. If
//     some of them have not revealed their b, even the sum is hidden: by these.
//   - There is one such U in an attempt: it has q members, and q - c of them are honest at least. Two that share no
//     honest member would need 2 (q - c) of the N - c honest ones: 2q > N + c leaves no room for that
//     ([Group.Validate]).
//   - The sum over the honest members of U has noise of q - c shares or more, and these are enough ([gnmax.Share]).
//   - Each attempt has seeds, masks and noise of its own, because its number is in the terms and b is fresh. So two
//     attempts that open are two noisy answers, and cost as much: a site is charged for each before it is opened.
//   - A key that the aggregator made up has no signature by a key whose fingerprint is in the spec.
//
// # Why an attempt that a member does not open is free
//
// What an honest member has sent in it is x + e + PRG(b) + masks, and tags where it agreed. Its b is never
// revealed: not in this attempt, and in no other, since it is drawn for one; nor by another process, since it is
// in the memory of one. So to anyone who has all else (all seeds of pairs, and the b of all others) PRG(b) is as
// good as uniform, and with it the answer, whatever x and e are. Tags are made of terms, U and keys of pairs: x
// and e are not in them. So all of it could be drawn without x, and tells nothing.
//
// It is so also for an aggregator that chooses: one that has seen answers, all tags, and what others have
// revealed, and then has a member go on or not. It has seen nothing of the member's x or e by then, so that its
// choice depends on neither; with the choice made against it the attempt tells nothing, with the choice made for
// it the member's site is charged first. Nor does it get a sum without the member: where an honest j of U
// revealed and an honest i of U did not, any sum of honest answers with that of j is hidden. If that of i is in it,
// its b hides it. If not, then of two partners one is in the sum and one is not, as the graph is connected, and both
// keep their seed. j is charged all the same. So the number of attempts has no bound, and that of openings has
// ([Retries]).
//
// Not hidden: who takes part, when, and how long it takes. What takes a time that tells of x, a random sample say,
// must not be drawn anew before it is paid for, or a choice by time is one of x. Not defended: a member whose answer
// is wrong spoils the total. A later break of X25519 opens recorded traffic.
package masking
