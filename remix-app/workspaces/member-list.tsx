import { AccountForm } from "../ui/account-form.tsx";
import { EmailAddress } from "../ui/address.tsx";
import { Button, ButtonLink } from "../ui/button.tsx";
import { ConfirmCard } from "../ui/confirm-card.tsx";
import { Select } from "../ui/field.tsx";
import { RelativeTime } from "../ui/moment.tsx";
import type { Member } from "./members.ts";
import { roleLabel } from "./roles.ts";

type Roles = readonly { id: string; name: string }[];

/**
 * The maximum number of roles to offer next to each member. With more roles, the selects would make up most of the
 * page.
 */
const maxInlineRoles = 6;

export interface MemberListProps {
  /** One page of members. */
  members: Member[];
  /** The id of the current user. */
  me: string;
  manages: boolean;
  assignable: Roles;
  /** The page's URL. */
  here: string;
  /** Returns the page's query with `change` or `remove` set to a member, which opens the form for that member. */
  ask: (question: Record<string, string>) => string;
}

/** Lists members with their roles, and with their emails for people who manage members. */
export function MemberList({ members, me, manages, assignable, here, ask }: MemberListProps) {
  if (members.length === 0) return <p className="text-muted">No members match your search.</p>;
  return (
    <ul>
      {members.map((member) => {
        const { userId, name, email, roleId, role, joinedAt } = member;
        const mayChange = manages && assignable.some(({ id }) => id === roleId);
        const self = userId === me;
        return (
          <li
            key={userId}
            className="flex flex-wrap items-center justify-between gap-x-6 gap-y-2 border-line py-3 not-first:border-t first:pt-0 last:pb-0"
          >
            <div className="min-w-0">
              <p className="break-words font-medium">
                <bdi>{name}</bdi>
                {self ? <span className="text-muted"> (you)</span> : null}
              </p>
              {email ? (
                <p className="wrap-anywhere text-muted">
                  <EmailAddress>{email}</EmailAddress>
                </p>
              ) : null}
              <p className="text-muted text-small">
                {roleLabel(role)} · Joined <RelativeTime at={joinedAt} />
              </p>
            </div>
            <div className="flex flex-wrap items-end gap-2">
              {mayChange && !self && assignable.length <= maxInlineRoles ? (
                <RoleChoice member={member} assignable={assignable} here={here} />
              ) : null}
              {mayChange && !self && assignable.length > maxInlineRoles ? (
                <ButtonLink href={ask({ change: userId })} aria-label={`Change the role of ${name}`}>
                  Change role
                </ButtonLink>
              ) : null}
              {mayChange || self ? (
                <ButtonLink
                  href={ask({ remove: userId })}
                  aria-label={self ? "Leave this workspace" : `Remove ${name}`}
                >
                  {self ? "Leave" : "Remove"}
                </ButtonLink>
              ) : null}
            </div>
          </li>
        );
      })}
    </ul>
  );
}

interface RoleChangeProps {
  member: Pick<Member, "userId" | "name" | "roleId">;
  assignable: Roles;
  here: string;
}

function RoleChoice({ member: { userId, name, roleId }, assignable, here }: RoleChangeProps) {
  return (
    <AccountForm action={here} className="flex items-end gap-2">
      <input type="hidden" name="intent" value="change_role" />
      <input type="hidden" name="userId" value={userId} />
      <Select id={`role-${userId}`} name="roleId" label={`Role of ${name}`} hideLabel defaultValue={roleId}>
        {assignable.map((choice) => (
          <option key={choice.id} value={choice.id}>
            {roleLabel(choice.name)}
          </option>
        ))}
      </Select>
      <Button variant="secondary" aria-label={`Save role of ${name}`}>
        Save role
      </Button>
    </AccountForm>
  );
}

export function RoleChange(props: RoleChangeProps) {
  const { member, here } = props;
  return (
    <ConfirmCard title={`Change the role of ${member.name}`} lead="Takes effect immediately." cancelTo={here}>
      <RoleChoice {...props} />
    </ConfirmCard>
  );
}
