import { type ActionFunctionArgs, data, type LoaderFunctionArgs, redirect } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { readCrossOriginForm } from "../../http/form.ts";
import type { RouteHandle } from "../../http/route-table.ts";
import { logoutPath, readLogoutRequest, signOutForClient } from "../../openid/rp-logout.ts";
import { getUser, getUserLabel } from "../../session/user.ts";
import { AccountForm } from "../../ui/account-form.tsx";
import { EmailAddress } from "../../ui/address.tsx";
import { pageTitle, useBrand } from "../../ui/brand.ts";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";
import { SignedOutPage } from "../../ui/leave-page.tsx";

// OpenID Connect RP-Initiated Logout 1.0 section 2: clients may send people here with a form of their own.
export const handle: RouteHandle = { takesForeignForms: true, target: false };
export const meta = pageTitle("Sign out");

/** Signs out at a client's request. Asks first, unless the ID token belongs to a login from this session. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  const logout = await readLogoutRequest(context, request);
  if (!logout) return data({ kind: "fault" as const }, { status: 400 });
  const { displayName, address, isProven } = logout;
  const user = await getUser(context);
  if (user && !isProven) {
    const action = logoutPath(new URL(request.url).searchParams).replace("/oauth/logout", "/oauth/logout/confirm");
    return data({ kind: "ask" as const, displayName, email: getUserLabel(user), action });
  }
  if (user) await signOutForClient(context, { user, login: logout.login });
  if (address) throw redirect(address, 303);
  return data({ kind: "done" as const });
}

/**
 * Redirects a cross-site POST to the same request as a GET, because browsers send the session cookie only with the GET.
 */
export async function action({ request, context }: ActionFunctionArgs) {
  throw redirect(new URL(logoutPath(await readCrossOriginForm(request, context)), context.origin).href, 303);
}

export default function LogoutPage() {
  const product = useBrand().name;
  const shown = useLoaderData<typeof loader>();
  if (shown.kind === "ask") {
    const { displayName, email, action } = shown;
    return (
      <EntryPage
        title="Sign out?"
        lead={
          displayName
            ? `${displayName} is asking to sign you out of ${product}.`
            : "You’ll be signed out in this browser."
        }
        themeSwitch={false}
      >
        <p>
          Signed in as{" "}
          <strong className="font-semibold">
            <EmailAddress whole>{email}</EmailAddress>
          </strong>
          .
        </p>
        <AccountForm action={action}>
          <Button className="w-full">Sign out</Button>
        </AccountForm>
        <ButtonLink href="/" variant="quiet" className="w-full">
          Stay signed in
        </ButtonLink>
      </EntryPage>
    );
  }
  if (shown.kind === "done") return <SignedOutPage />;
  return (
    <EntryPage
      title="This sign-out link isn’t valid"
      lead="It doesn’t belong to an app we know, or leads to an address that isn’t registered for it. You weren’t signed out."
      themeSwitch={false}
    >
      <ButtonLink href="/" className="w-full">
        Go to home page
      </ButtonLink>
    </EntryPage>
  );
}
