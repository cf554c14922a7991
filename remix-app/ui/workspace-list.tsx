import { ChevronRight } from "lucide-react";
import { getInitial } from "./account-choices.tsx";

export interface WorkspaceListItem {
  id: string;
  name: string;
  planId: string;
  personal: boolean;
  role: string;
}

/** Lists the workspaces to choose from. If there are none, says to ask for an invitation. */
export function WorkspaceList({ workspaces }: { workspaces: WorkspaceListItem[] }) {
  if (workspaces.length === 0) {
    return <p className="text-muted">You’re not in a workspace yet. Ask a colleague to invite you to theirs.</p>;
  }
  return (
    <ul className="-my-3">
      {workspaces.map(({ id, name, planId, personal, role }) => (
        <li key={id} className="border-line not-first:border-t">
          <a
            href={`/workspaces/${id}`}
            className="-mx-2 sm:-mx-3 flex items-center gap-3 rounded-button px-2 py-3 -outline-offset-2 hover:bg-sunken sm:px-3"
          >
            <span
              aria-hidden="true"
              className="grid size-8 shrink-0 place-items-center overflow-hidden rounded-button bg-accent-soft font-semibold text-accent uppercase"
            >
              {getInitial(name)}
            </span>
            <span className="min-w-0 flex-1">
              <span className="two-lines text-left font-medium" title={name}>
                <bdi>{name}</bdi>
              </span>
              <span className="block truncate text-muted text-small">
                {personal ? "Personal" : "Shared"} · <span className="inline-block first-letter:uppercase">{role}</span>
                <span className="sm:hidden">
                  {" · "}
                  <span className="inline-block first-letter:uppercase">{planId}</span>
                </span>
              </span>
            </span>
            <span className="hidden shrink-0 rounded-full border border-line px-2 py-0.5 text-muted text-small capitalize sm:block">
              {planId}
            </span>
            <ChevronRight aria-hidden="true" className="size-4 shrink-0 text-muted" />
          </a>
        </li>
      ))}
    </ul>
  );
}
