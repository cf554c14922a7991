import { ButtonLink } from "../ui/button.tsx";
import { DataTable } from "../ui/data-table.tsx";
import { RelativeTime } from "../ui/moment.tsx";
import type { ApprovableWorkspace } from "./key-approvals.ts";

/** Workspaces, with whether they may make keys, and the way to decide otherwise. */
export function WorkspaceTable({ workspaces, empty }: { workspaces: readonly ApprovableWorkspace[]; empty: string }) {
  return (
    <DataTable
      caption="Workspaces"
      rows={workspaces}
      rowKey={({ id }) => id}
      empty={empty}
      columns={[
        {
          label: "Workspace",
          cell: ({ id, name, owners, members, approvedAt, approvedBy }) => (
            <>
              <span className="block font-medium">{name}</span>
              <span className="block text-muted text-small">
                {owners.filter(Boolean).join(", ") || "Without an owner"} · {members}{" "}
                {members === 1 ? "member" : "members"}
              </span>
              <span className="block break-all font-mono text-muted text-small">{id}</span>
              <span className="block text-muted text-small">
                {approvedAt ? (
                  <>
                    Approved <RelativeTime at={approvedAt} />
                    {approvedBy ? ` by ${approvedBy}` : ""}
                  </>
                ) : (
                  "No approval"
                )}
              </span>
            </>
          ),
        },
        { label: "Plan", small: "hidden", cell: ({ plan }) => <span className="capitalize">{plan}</span> },
        { label: "Keys", numeric: true, small: "hidden", cell: ({ liveKeys }) => liveKeys },
        {
          label: "Approval",
          small: "aside",
          cell: ({ id, name, approvedAt }) => (
            <ButtonLink
              href={`/admin/workspaces/${id}/${approvedAt ? "withdraw" : "approve"}`}
              aria-label={`${approvedAt ? "Withdraw" : "Approve"} keys of ${name}`}
              variant={approvedAt ? "danger" : "secondary"}
            >
              {approvedAt ? "Withdraw" : "Approve"}
            </ButtonLink>
          ),
        },
      ]}
    />
  );
}
