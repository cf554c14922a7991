import { buttonClass } from "../ui/button.tsx";
import { RelativeTime } from "../ui/relative-time.tsx";
import type { ApprovableWorkspace } from "./key-approvals.ts";

const cell = "border-line border-t py-2.5 pr-4 align-top last:pr-0";
const wide = "hidden sm:table-cell";

/** Workspaces, with whether they may make keys, and the way to decide otherwise. */
export function WorkspaceTable({ workspaces }: { workspaces: readonly ApprovableWorkspace[] }) {
  return (
    <table className="w-full text-left">
      <thead className="text-muted text-small">
        <tr>
          <th className="pr-4 pb-2 font-medium">Workspace</th>
          <th className={`${wide} pr-4 pb-2 font-medium`}>Plan</th>
          <th className={`${wide} pr-4 pb-2 text-right font-medium`}>Keys</th>
          <th className="pb-2 font-medium">Approval</th>
        </tr>
      </thead>
      <tbody>
        {workspaces.map(({ id, name, plan, owners, members, liveKeys, approvedAt, approvedBy }) => (
          <tr key={id}>
            <td className={cell}>
              <p className="break-words font-medium">{name}</p>
              <p className="break-all text-muted text-small">
                {owners.filter(Boolean).join(", ") || "Without an owner"} · {members}{" "}
                {members === 1 ? "member" : "members"}
              </p>
              <p className="break-all font-mono text-muted text-small">{id}</p>
            </td>
            <td className={`${cell} ${wide}`}>{plan}</td>
            <td className={`${cell} ${wide} text-right tabular-nums`}>{liveKeys}</td>
            <td className={`${cell} space-y-2`}>
              <p className="text-muted">
                {approvedAt ? (
                  <>
                    Approved <RelativeTime at={approvedAt} />
                    {approvedBy ? <span className="hidden sm:inline"> by {approvedBy}</span> : null}
                  </>
                ) : (
                  "None"
                )}
              </p>
              <a
                href={`/admin/workspaces/${id}/${approvedAt ? "withdraw" : "approve"}`}
                aria-label={`${approvedAt ? "Withdraw" : "Approve"} keys of ${name}`}
                className={buttonClass(approvedAt ? "danger" : "secondary")}
              >
                {approvedAt ? "Withdraw" : "Approve"}
              </a>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
