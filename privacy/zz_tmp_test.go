package privacy
import ("testing";"encoding/json";"os")
func TestZZ(t *testing.T){
 raw,_:=json.Marshal(Orders()); os.WriteFile("/tmp/h/orders.json",raw,0o644)
 type c struct{Events []Event `json:"events"`; Delta float64 `json:"delta"`; RDP float64 `json:"rdp"`}
 var out []c
 for _,ev:=range [][]Event{{{Kind:GNMax,Sigma:150,Count:1000},{Kind:Laplace,Epsilon:.02,Count:1}},{{Kind:LNMax,Lambda:.01,Count:2000}},{{Kind:ConfidentGNMax,Threshold:5,Sigma1:300,Sigma2:100,Asked:64,Answered:30},{Kind:Exponential,Epsilon:.3,Count:5}},{{Kind:Laplace,Epsilon:3,Count:2}}}{
  for _,d:=range []float64{1e-5,1e-9}{ r,err:=Running(ev,d); if err!=nil{t.Fatal(err)}; out=append(out,c{ev,d,*r.ByAccountant["rdp"]}) } }
 raw,_=json.Marshal(out); os.WriteFile("/tmp/h/cases.json",raw,0o644)
}
