import { ButtonLink } from "../ui/button.tsx";
import { DataTable } from "../ui/data-table.tsx";
import { RelativeTime } from "../ui/moment.tsx";
import type { ApprovableWorkspace, KeyRequest } from "./key-approvals.ts";

/** Lists the workspaces that wait for approval, with links to decide. */
export function KeyRequestTable({ waiting }: { waiting: readonly KeyRequest[] }) {
  return (
    <DataTable
      caption="Workspaces waiting for approval"
      rows={waiting}
      rowKey={({ id }) => id}
      empty="No open requests. Members request approval on their workspace’s API keys page, and you get an email."
      columns={[
        {
          label: "Workspace",
          cell: ({ id, name, owners, note }) => (
            <>
              <a href={`/admin/workspaces/${id}`} className="link font-medium">
                {name}
              </a>
              <span className="block text-muted text-small">{owners.filter(Boolean).join(", ") || "No owner"}</span>
              {note ? <span className="wrap-anywhere block max-w-prose whitespace-pre-line">{note}</span> : null}
            </>
          ),
        },
        {
          label: "Requested",
          cell: ({ createdAt, requestedBy }) => (
            <>
              <RelativeTime at={createdAt} /> by {requestedBy ?? "a former member"}
            </>
          ),
        },
        { label: "Plan", small: "hidden", cell: ({ plan }) => <span className="capitalize">{plan}</span> },
        {
          label: "Decision",
          cell: ({ id, name }) => (
            <span className="flex gap-2 max-sm:flex-wrap">
              <ButtonLink
                href={`/admin/workspaces/${id}/approve`}
                aria-label={`Approve keys of ${name}`}
                variant="secondary"
              >
                Approve
              </ButtonLink>
              <ButtonLink
                href={`/admin/workspaces/${id}/decline`}
                aria-label={`Decline the request of ${name}`}
                variant="secondary"
              >
                Decline
              </ButtonLink>
            </span>
          ),
        },
      ]}
    />
  );
}

/** Lists workspaces and whether they may create keys, with links to change that. */
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
          cell: ({ id, name, owners, members, approvedAt, approvedBy, request }) => (
            <>
              <a href={`/admin/workspaces/${id}`} className="link font-medium">
                {name}
              </a>
              <span className="block text-muted text-small">
                {owners.filter(Boolean).join(", ") || "No owner"} · {members} {members === 1 ? "member" : "members"}
              </span>
              <span className="block break-all font-mono text-muted text-small">{id}</span>
              <span className="block text-muted text-small">
                {approvedAt ? (
                  <>
                    Approved <RelativeTime at={approvedAt} />
                    {approvedBy ? ` by ${approvedBy}` : ""}
                  </>
                ) : request ? (
                  <>
                    Requested <RelativeTime at={request.requestedAt} />
                    {request.requestedBy ? ` by ${request.requestedBy}` : ""}
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
              aria-label={`${approvedAt ? "Withdraw approval of" : "Approve keys of"} ${name}`}
              variant={approvedAt ? "danger" : "secondary"}
            >
              {approvedAt ? "Withdraw approval" : "Approve"}
            </ButtonLink>
          ),
        },
      ]}
    />
  );
}
