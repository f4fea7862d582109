package student

import (
	"context"

	conclavev1 "github.com/conclave-dp/conclave/proto/conclave/v1"
	"github.com/conclave-dp/conclave/proto/conclave/v1/rpc"
)

// Nodes returns the state of the nodes of all datasets, for certificates of role operator.
func (c *Client) Nodes(ctx context.Context) (nodes []*conclavev1.NodeStatus, err error) {
	api := rpc.NewOperatorServiceClient(c.conn)
	var after *conclavev1.NodeName
	for more := true; more; {
		err = c.retry(ctx, "list the nodes", func() error {
			page, err := api.ListNodes(ctx, &conclavev1.ListNodesRequest{After: after})
			if err != nil {
				return err
			}
			nodes, more = append(nodes, page.GetNodes()...), page.GetMore() && len(page.GetNodes()) > 0
			return nil
		})
		if err != nil {
			return nil, err
		}
		if more {
			after = nodes[len(nodes)-1].GetName()
		}
	}
	return nodes, nil
}
