package nn

// Replica is a network whose parameters can be exchanged: it reads and writes the parameters of one model after
// the other in place.
type Replica struct {
	Net *Network
	// Grad holds the gradients of all of the network's parameters, in the order of
	// [Network.Params].
	Grad   []float32
	values []*[]float32
}

// NewReplica makes a network a replica. From then on it uses one processor, and has no list of parameters, since
// they would belong to no model.
func NewReplica(net *Network) *Replica {
	r := &Replica{Net: net}
	for _, p := range net.slots() {
		r.values = append(r.values, p.value)
		r.Grad = append(r.Grad, *p.grad...)
	}
	at := 0
	for _, p := range net.slots() {
		n := len(*p.grad)
		*p.grad = r.Grad[at : at+n : at+n]
		at += n
	}
	clear(r.Grad)
	net.params = nil
	net.SetWorkers(1)
	return r
}

// Take gives the network a model's parameters, all in one slice.
func (r *Replica) Take(params []float32) {
	for _, v := range r.values {
		n := len(*v)
		*v, params = params[:n:n], params[n:]
	}
}
