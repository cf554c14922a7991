import { AccountForm } from "../ui/account-form.tsx";
import { Button, ButtonLink } from "../ui/button.tsx";
import { countText } from "../ui/count-text.ts";
import { ErrorSummary } from "../ui/error-summary.tsx";
import { CheckBox, Field } from "../ui/field.tsx";
import { formatUsd } from "../ui/format-amount.ts";
import type { Role } from "./members.ts";
import type { WorkspacePermission } from "./permission.ts";
import { describeRole, financePreset, permissionWords, roleLabel } from "./roles.ts";

export interface RoleFormProps {
  intent: "create" | "save";
  /** The caller's own permissions, which they may grant to other members. */
  grantable: readonly WorkspacePermission[];
  name: string;
  permissions: readonly string[];
  memberBudgetUsd: number | null;
  failed: string | null;
}

/** Renders the form for a role's name and permissions. */
export function RoleForm({ intent, grantable, name, permissions, memberBudgetUsd, failed }: RoleFormProps) {
  const hint = `${intent}-permissions-hint`;
  return (
    <AccountForm noValidate className="max-w-108 space-y-5">
      <ErrorSummary id="role-error" fields={{ "role-name": failed }} />
      <input type="hidden" name="intent" value={intent} />
      <Field
        id="role-name"
        name="name"
        label="Name"
        autoComplete="off"
        required
        maxLength={40}
        defaultValue={name}
        error={failed}
      />
      <fieldset aria-describedby={hint} className="space-y-3">
        <legend className="mb-1.5 font-medium">Permissions</legend>
        <p id={hint} className="text-muted text-small">
          You can only grant permissions you have. Members without permissions can only see who’s in the workspace.
        </p>
        {grantable.map((permission) => (
          <label key={permission} className="flex cursor-pointer items-start gap-3">
            <input
              type="checkbox"
              name={permission}
              defaultChecked={permissions.includes(permission)}
              className="mt-0.75 size-4 shrink-0 cursor-pointer accent-accent"
            />
            <span className="min-w-0">
              <span className="block font-medium">{permissionWords[permission].name}</span>
              <span className="block text-muted text-small">{permissionWords[permission].explanation}</span>
            </span>
          </label>
        ))}
      </fieldset>
      <CheckBox
        name="memberBudgetUsd"
        value={memberBudgetUsd ?? 0}
        label={`Start with a monthly budget of ${formatUsd(String(memberBudgetUsd ?? 0))}`}
        hint="For people who see costs but call no models. Applies when a person gets this role, unless they already have a budget. You can change it on the Budgets page."
        defaultChecked={memberBudgetUsd !== null}
      />
      <Button>{intent === "create" ? "Create role" : "Save role"}</Button>
    </AccountForm>
  );
}

/** Adds the preset role for people who only need costs and invoices. */
export function FinancePresetForm() {
  return (
    <AccountForm>
      <input type="hidden" name="intent" value="create" />
      <input type="hidden" name="name" value={financePreset.name} />
      {financePreset.permissions.map((one) => (
        <input key={one} type="hidden" name={one} value="on" />
      ))}
      <input type="hidden" name="memberBudgetUsd" value={financePreset.memberBudgetUsd} />
      <Button variant="secondary">Add Finance role</Button>
    </AccountForm>
  );
}

export interface ListedRole extends Role {
  /** The number of members with the role, counted up to 1,001. */
  members: number;
  editable: boolean;
}

function formatHolderCount(count: number): string {
  if (count === 0) return "Not assigned";
  return count === 1 ? "Assigned to 1 person" : `Assigned to ${countText(count)} people`;
}

/** Lists a workspace's roles with their descriptions and number of members. @param props.path the page's path */
export function RoleList({ roles, path }: { roles: ListedRole[]; path: string }) {
  return (
    <ul>
      {roles.map(({ id, name, members, editable, ...role }) => (
        <li
          key={id}
          className="flex flex-wrap items-center justify-between gap-x-6 gap-y-2 border-line py-3 not-first:border-t first:pt-0 last:pb-0"
        >
          <div className="min-w-0 flex-1 basis-56">
            <p className="break-words font-medium">{roleLabel(name)}</p>
            <p className="max-w-prose text-muted text-small">{describeRole(role)}</p>
            <p className="text-muted text-small">{formatHolderCount(members)}</p>
          </div>
          {editable ? (
            <ButtonLink href={`${path}/${id}`} aria-label={`Edit ${name}`}>
              Edit
            </ButtonLink>
          ) : null}
        </li>
      ))}
    </ul>
  );
}
