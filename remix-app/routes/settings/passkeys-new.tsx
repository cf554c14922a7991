import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { maxPasskeys } from "../../passkeys/limits.ts";
import { PasskeyRegistration } from "../../passkeys/passkey-registration.tsx";
import { listPasskeys } from "../../passkeys/passkeys.ts";
import { requireFreshUser } from "../../session/user.ts";
import { pageTitle } from "../../ui/brand.ts";
import { ButtonLink } from "../../ui/button.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";
import { Notice } from "../../ui/notice.tsx";

export const meta = pageTitle("Add a passkey");

const passkeysCardPath = "/settings/security#passkeys";

export async function loader({ request, context }: LoaderFunctionArgs) {
  const { id, email, mfa } = await requireFreshUser(context, request);
  const passkeys = await listPasskeys(context.env, id);
  return { email, asksForCode: mfa.required, full: passkeys !== null && passkeys.length >= maxPasskeys };
}

export default function AddPasskeyPage() {
  const { email, asksForCode, full } = useLoaderData<typeof loader>();
  return (
    <EntryPage
      title="Add a passkey"
      lead="Sign in with your fingerprint, face or security key. A passkey works only on this site, so it can’t be phished."
    >
      <p>
        The passkey will sign you in as <strong className="font-semibold">{email}</strong>.
      </p>
      {asksForCode ? (
        <p>
          After you sign in with it, you’ll still enter a code from your authenticator app: a passkey replaces your
          password, and your account also asks for a second factor.
        </p>
      ) : null}
      {full ? (
        <>
          <Notice tone="warn">You have {maxPasskeys} passkeys, the maximum. Delete one you no longer use first.</Notice>
          <ButtonLink href={passkeysCardPath} className="w-full">
            Back to your passkeys
          </ButtonLink>
        </>
      ) : (
        <PasskeyRegistration back={passkeysCardPath} />
      )}
    </EntryPage>
  );
}
