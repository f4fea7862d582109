// Package pgb is the student's side of private post-GAN boosting (Neunhoeffer, Wu and Dwork, "Private Post-GAN
// Boosting", ICLR 2021). It weights the records of several generators so that none of several discriminators
// tells them from real ones.
//
//	game, err := pgb.New(scores, pgb.DefaultOptions()) // scores of candidates, by discriminator
//	plays, err := game.Play(ctx, selector, nil)        // asks once a round
//	plays.Weights                                      // of each candidate
//
// The game has two players. Weights phi over the candidates B play against one of the discriminators D_1 to
// D_N, which pays
//
//	U(phi, D) = E_real D + E_{b~phi}(1 - D(b))
//
// and the weights minimize it. In each round a discriminator of large U is selected privately, since E_real D
// is known only outside the student. Then phi(b) grows by exp(rate D(b)): these are multiplicative weights
// (Freund and Schapire 1999). The averages of both over the rounds are close to an equilibrium; [Alpha] says
// how close.
//
// The student holds candidates and released discriminators. It learns only one thing about real records: which
// discriminator was selected. So only selections cost budget. A game draws nothing at random: the same scores
// and selections give exactly the same questions on a machine of the same kind. A restarted student asks them
// again and pays nothing.
package pgb
