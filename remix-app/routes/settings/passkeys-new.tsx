import { useLoaderData } from "@remix-run/react";
import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import { maxPasskeys } from "../../passkeys/limits.ts";
import { PasskeyRegistration } from "../../passkeys/passkey-registration.tsx";
import { listPasskeys } from "../../passkeys/passkeys.ts";
import { requireFreshUser } from "../../session/user.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";
import { Notice } from "../../ui/notice.tsx";

export const meta = pageTitle("Add a passkey");

const back = "/settings/security#passkeys";

export async function loader({ request, context }: LoaderFunctionArgs) {
  const { id, email } = await requireFreshUser(context, request);
  const passkeys = await listPasskeys(context.env, id);
  return { email, full: passkeys !== null && passkeys.length >= maxPasskeys };
}

export default function AddPasskeyPage() {
  const { email, full } = useLoaderData<typeof loader>();
  return (
    <EntryPage
      title="Add a passkey"
      lead="Sign in by fingerprint, face or security key instead of a password. It works only on this site, so a fake page cannot steal it."
    >
      <p>
        For <strong className="font-semibold">{email}</strong>. Your browser asks where to keep it.
      </p>
      {full ? (
        <>
          <Notice tone="warn">
            This account has {maxPasskeys} passkeys, the most it can have. Delete one that you no longer use first.
          </Notice>
          <ButtonLink href={back}>Back to your passkeys</ButtonLink>
        </>
      ) : (
        <PasskeyRegistration back={back} />
      )}
    </EntryPage>
  );
}
