// Package pgb is the student's side of private post-GAN boosting (Neunhoeffer, Wu and
// Dwork, "Private Post-GAN Boosting", ICLR 2021): of what several generators made, it finds
// the weighting of records that none of several discriminators tells from real ones.
//
//	game, err := pgb.New(scores, pgb.DefaultOptions()) // scores of candidates, by discriminator
//	plays, err := game.Play(ctx, selector, nil)        // asks once a round
//	plays.Weights                                      // of each candidate
//
// The game has two players. Weights phi over the candidates B play against one of the
// discriminators D_1 to D_N, which pays
//
//	U(phi, D) = E_real D + E_{b~phi}(1 - D(b))
//
// and the weights want it small. In each round a discriminator of large U is selected,
// privately, as E_real D is known to others alone; then phi(b) grows by exp(rate D(b)), which
// are multiplicative weights (Freund and Schapire 1999). The averages of both over the rounds
// are close to an equilibrium; [Alpha] says how close.
//
// What the student holds is candidates and released discriminators. All that it learns of
// real records is which discriminator was selected, so that selections are all that costs.
// A game draws nothing at random: the same scores and selections give the same questions to
// the bit on a machine of the same kind, and a student that starts again asks them anew and
// pays nothing.
package pgb
