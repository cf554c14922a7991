import { Button } from "../ui/button.tsx";
import { Moment } from "../ui/moment.tsx";
import { PostForm } from "../ui/post-form.tsx";
import type { OpenInvitation } from "./invitations.ts";
import { roleLabel } from "./roles.ts";

/** Invitations that nobody has accepted yet. */
export function InvitationList({ invitations, now }: { invitations: OpenInvitation[]; now: string }) {
  if (invitations.length === 0) return <p className="mt-5 text-muted">No invitation is open.</p>;
  return (
    <>
      <h3 className="mt-6 font-medium">Open invitations</h3>
      <ul>
        {invitations.map(({ id, email, role, sentAt, expiresAt }) => (
          <li
            key={id}
            className="flex flex-wrap items-center justify-between gap-3 border-line py-3 not-first:border-t last:pb-0"
          >
            <div className="min-w-0">
              <p className="wrap-anywhere">{email}</p>
              <p className="text-muted text-small">
                {roleLabel(role)} · sent <Moment at={sentAt} now={now} /> · {expiresAt > now ? "ends" : "ended"}{" "}
                <Moment at={expiresAt} now={now} />
              </p>
            </div>
            <PostForm>
              <input type="hidden" name="intent" value="withdraw" />
              <input type="hidden" name="invitationId" value={id} />
              <Button variant="secondary" aria-label={`Withdraw the invitation to ${email}`}>
                Withdraw
              </Button>
            </PostForm>
          </li>
        ))}
      </ul>
    </>
  );
}
