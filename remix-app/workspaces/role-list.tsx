import { Link } from "@remix-run/react";
import { buttonClass } from "../ui/button.tsx";
import type { Role } from "./members.ts";
import { permissionWords } from "./permission-words.ts";
import { roleLabel } from "./roles.ts";

export interface ListedRole extends Role {
  /** How many members have it. */
  members: number;
  editable: boolean;
}

function holders(count: number): string {
  if (count === 0) return "Nobody has it";
  return count === 1 ? "1 person has it" : `${count} people have it`;
}

/** A workspace's roles, each with what it allows and how many have it. */
export function RoleList({ roles }: { roles: ListedRole[] }) {
  return (
    <ul>
      {roles.map(({ id, name, is_owner, permissions, members, editable }) => (
        <li
          key={id}
          className="flex flex-wrap items-center justify-between gap-x-6 gap-y-2 border-line py-3 not-first:border-t first:pt-0 last:pb-0"
        >
          <div className="min-w-0 flex-1 basis-56">
            <p className="break-words font-medium">{roleLabel(name)}</p>
            <p className="text-muted text-small">
              {is_owner
                ? "Everything, and who owns the workspace"
                : permissions.map((one) => permissionWords[one].name).join(", ") || "Sees who is in the workspace"}
            </p>
            <p className="text-muted text-small">{holders(members)}</p>
          </div>
          {editable ? (
            <Link to={id} className={buttonClass("secondary")} aria-label={`Edit ${name}`}>
              Edit
            </Link>
          ) : null}
        </li>
      ))}
    </ul>
  );
}
