import { ChevronsUpDown } from "lucide-react";
import { getInitial } from "./account-choices.tsx";

interface Choice {
  id: string;
  name: string;
}

/** Shows the page's workspace and links to others. */
export function WorkspaceSwitcher({ workspace, others }: { workspace: Choice; others: readonly Choice[] }) {
  return (
    <details className="rounded-card border border-line">
      <summary className="flex min-h-11 cursor-pointer list-none items-center gap-2.5 rounded-card px-2.5 py-1.5 hover:bg-sunken">
        <Tile name={workspace.name} />
        <span className="two-lines min-w-0 flex-1 font-medium" title={workspace.name}>
          <span className="sr-only">Workspace: </span>
          <bdi>{workspace.name}</bdi>
        </span>
        <ChevronsUpDown aria-hidden="true" className="size-4 shrink-0 text-muted" />
      </summary>
      <ul aria-label="Other workspaces" className="border-line border-t p-1">
        {others.map(({ id, name }) => (
          <li key={id}>
            <a href={`/workspaces/${id}`} className="menu-item">
              <Tile name={name} />
              <bdi className="min-w-0 truncate" title={name}>
                {name}
              </bdi>
            </a>
          </li>
        ))}
        <li>
          <a href="/workspaces" className="menu-item">
            All workspaces
          </a>
        </li>
      </ul>
    </details>
  );
}

function Tile({ name }: { name: string }) {
  return (
    <span
      aria-hidden="true"
      className="grid size-6 shrink-0 place-items-center overflow-hidden rounded-button bg-accent-soft font-semibold text-accent text-small uppercase"
    >
      {getInitial(name)}
    </span>
  );
}
