import { AccountForm } from "../ui/account-form.tsx";
import { Button } from "../ui/button.tsx";
import { ConfirmCard } from "../ui/confirm-card.tsx";
import { countText } from "../ui/count-text.ts";
import { RelativeTime } from "../ui/moment.tsx";
import type { OpenInvitation } from "./invitations.ts";
import type { Member } from "./members.ts";
import { roleLabel } from "./roles.ts";

/** The API keys that a member made. `keys` is empty if the viewer doesn't manage keys. */
interface MemberKeys {
  count: number;
  keys: readonly { id: string; name: string; lookup: string; lastUsedAt: string | null }[];
}

interface RemovalProps {
  member: Pick<Member, "userId" | "name">;
  self: boolean;
  workspace: { id: string; name: string };
  keys: MemberKeys;
  /** The first of the member's open invitations. */
  invitations: readonly OpenInvitation[];
  moreInvitations: boolean;
  /** The URL of the members page. */
  here: string;
}

const formId = "removal";

/**
 * Asks for confirmation before a member is removed from a workspace, or leaves it. Lists the access that the member gave
 * to others: invitations, which are withdrawn, and API keys, which can be revoked.
 */
export function Removal({ member, self, workspace, keys, invitations, moreInvitations, here }: RemovalProps) {
  const { userId, name } = member;
  return (
    <ConfirmCard
      title={self ? `Leave ${workspace.name}?` : `Remove ${name} from ${workspace.name}?`}
      lead={
        self
          ? "You’ll lose access immediately, and your coding agents are disconnected. To come back, you’ll need a new invitation."
          : "They’ll lose access immediately, including in connected apps and coding agents. To come back, they’ll need a new invitation."
      }
      details={
        <>
          <KeysToRevoke {...keys} self={self} workspaceId={workspace.id} />
          {invitations.length > 0 ? (
            <section aria-labelledby="withdrawn">
              <h3 id="withdrawn" className="font-medium">
                Open invitations that will be withdrawn
              </h3>
              <ul className="mt-1 list-disc pl-5">
                {invitations.map(({ id, email, role }) => (
                  <li key={id} className="wrap-anywhere">
                    {email} <span className="text-muted">· {roleLabel(role)}</span>
                  </li>
                ))}
                {moreInvitations ? <li className="text-muted">And others.</li> : null}
              </ul>
            </section>
          ) : null}
        </>
      }
      cancelTo={here}
    >
      <AccountForm id={formId} action={here}>
        <input type="hidden" name="intent" value="remove" />
        <input type="hidden" name="userId" value={userId} />
        <Button variant="danger" className="wrap-anywhere">
          {self ? "Leave workspace" : `Remove ${name}`}
        </Button>
      </AccountForm>
    </ConfirmCard>
  );
}

function KeysToRevoke({ count, keys, self, workspaceId }: MemberKeys & { self: boolean; workspaceId: string }) {
  if (count === 0) return null;
  const [who, them] = self ? ["You", "you"] : ["They", "them"];
  const made = `${who} created ${countText(count)} API ${count === 1 ? "key" : "keys"}, which keep working without ${them}.`;
  if (keys.length === 0) {
    return (
      <p>
        {made} Ask a member who manages API keys to revoke {count === 1 ? "it" : "them"}.
      </p>
    );
  }
  return (
    <fieldset className="min-w-0">
      <legend className="font-medium">API keys to revoke</legend>
      <p className="text-muted">
        {made} Select any that {self ? "you" : "they"} may still know.
      </p>
      <ul className="mt-1 divide-y divide-line">
        {keys.map(({ id, name, lookup, lastUsedAt }, index) => (
          <li key={id} className="flex gap-3 py-2">
            <input
              type="checkbox"
              form={formId}
              id={`revoke-${index}`}
              name={`revoke_${index}`}
              value={id}
              className="mt-0.5 size-4 shrink-0 cursor-pointer accent-accent"
            />
            <label htmlFor={`revoke-${index}`} className="min-w-0 cursor-pointer">
              <span className="font-medium [overflow-wrap:anywhere]">{name}</span>{" "}
              <span className="text-muted">
                <span className="font-mono text-small">ttr_ai_{lookup}…</span> ·{" "}
                {lastUsedAt ? (
                  <>
                    last used <RelativeTime at={lastUsedAt} />
                  </>
                ) : (
                  "never used"
                )}
              </span>
            </label>
          </li>
        ))}
      </ul>
      {count > keys.length ? (
        <p className="text-muted">
          {countText(count - keys.length)} more on the{" "}
          <a className="link" href={`/workspaces/${workspaceId}/ai/keys`}>
            API keys
          </a>{" "}
          page.
        </p>
      ) : null}
    </fieldset>
  );
}
