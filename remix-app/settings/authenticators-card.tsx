import { securityPath } from "../mfa/security-path.ts";
import { ButtonLink } from "../ui/button.tsx";
import { Card } from "../ui/card.tsx";
import { RelativeTime } from "../ui/moment.tsx";
import { PageNav } from "../ui/page-nav.tsx";
import { UnconfirmedMark } from "./unconfirmed-mark.tsx";

interface ListedAuthenticator {
  id: string;
  name: string;
  createdAt: string;
  lastUsedAt: string | null;
}

const addPath = `/mfa/enroll?${new URLSearchParams({ returnUrl: securityPath })}`;

/** Lists the account's authenticator apps, with links to add and remove them. */
export function AuthenticatorsCard({
  records: authenticators,
  nextCursor,
  unconfirmed,
}: {
  /** One page of authenticators. */
  records: readonly ListedAuthenticator[];
  nextCursor: string | null;
  /** Ids of the unconfirmed authenticators. */
  unconfirmed: readonly string[];
}) {
  return (
    <Card
      id="authenticators"
      title="Authenticator apps"
      lead="Require a code from an authenticator app when you sign in."
      action={<ButtonLink href={addPath}>Add app</ButtonLink>}
    >
      {authenticators.length === 0 ? (
        <p className="text-muted">
          No authenticator apps yet. Add one so that your password alone isn’t enough to sign in.
        </p>
      ) : (
        <ul className="divide-y divide-line">
          {authenticators.map(({ id, name, createdAt, lastUsedAt }) => (
            <li
              key={id}
              className="flex flex-wrap items-center justify-between gap-x-6 gap-y-2 py-2.5 first:pt-0 last:pb-0"
            >
              <div className="min-w-0">
                <p className="font-medium">
                  {name} {unconfirmed.includes(id) ? <UnconfirmedMark /> : null}
                </p>
                <p className="text-muted">
                  Added <RelativeTime at={createdAt} />
                  {lastUsedAt ? (
                    <>
                      {" · "}Last used <RelativeTime at={lastUsedAt} />
                    </>
                  ) : null}
                </p>
              </div>
              <ButtonLink href={`/mfa/remove?${new URLSearchParams({ factorId: id })}`} aria-label={`Remove ${name}`}>
                Remove
              </ButtonLink>
            </li>
          ))}
        </ul>
      )}
      <PageNav
        label="Pages of authenticator apps"
        nextCursor={nextCursor}
        param="authenticators"
        card="authenticators"
      />
    </Card>
  );
}
