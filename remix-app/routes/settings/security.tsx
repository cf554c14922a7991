import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { listEvents } from "../../activity/list-events.ts";
import { paginateInMemory } from "../../http/list-page.ts";
import { passkeysOverview } from "../../passkeys/overview.ts";
import { requireUser } from "../../session/user.ts";
import { AccessCard } from "../../settings/access-card.tsx";
import { RecentActivityCard } from "../../settings/activity-list.tsx";
import { AuthenticatorsCard } from "../../settings/authenticators-card.tsx";
import { ConnectedAppsCard } from "../../settings/connected-apps-card.tsx";
import { DangerZoneCard, YourDataCard } from "../../settings/danger-zone-card.tsx";
import { linkedAccountsOf } from "../../settings/linked-accounts.ts";
import { LinkedAccountsCard } from "../../settings/linked-accounts-card.tsx";
import { PasskeysCard } from "../../settings/passkeys-card.tsx";
import { PasswordCard } from "../../settings/password-card.tsx";
import { readSecurity } from "../../settings/read-security.ts";
import { RecoveryCodesCard } from "../../settings/recovery-codes-card.tsx";
import { SessionsCard } from "../../settings/sessions-card.tsx";
import { takeNotice } from "../../settings/settings-notice.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle("Security");

const eventsShown = 5;
const authenticatorsShown = 10;

/** Loads the data of all cards. The log is read under row-level security, in parallel with the rest. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  const user = await requireUser(context, request);
  const { searchParams } = new URL(request.url);
  const cursor = searchParams.get("sessions") ?? undefined;
  const [{ methods, passkeys, authenticators, recoveryCodes, sessions, access }, activity] = await Promise.all([
    readSecurity(context, { user, cursor }),
    listEvents(user, { limit: eventsShown, requestId: context.requestId }),
  ]);
  const notice = takeNotice(context, request);
  return {
    notice,
    passwordExists: methods.password,
    passkeys: passkeysOverview(context, { user, passkeys }),
    authenticators: paginateInMemory(
      authenticators.filter(({ verified }) => verified),
      {
        limit: authenticatorsShown,
        cursor: searchParams.get("authenticators"),
        idOf: ({ id }) => id,
        requestId: context.requestId,
      },
    ),
    recoveryCodes,
    linkedAccounts: linkedAccountsOf(context, { methods, notice, cursor: searchParams.get("linked") }),
    sessions,
    activity,
    ...access,
  };
}

/** Shows sign-in methods, the second step, sessions, recent activity, data export and account deletion. */
export default function SecurityPage() {
  const page = useLoaderData<typeof loader>();
  const { notice, authenticators, unconfirmed } = page;
  return (
    <Page title="Security" lead="How you sign in, where you’re signed in, and recent activity.">
      <AccessCard confirmedAt={page.confirmedAt} unconfirmed={unconfirmed.length} notice={notice} />
      <PasswordCard exists={page.passwordExists} notice={notice} />
      <PasskeysCard {...page.passkeys} unconfirmed={unconfirmed} notice={notice} />
      <LinkedAccountsCard {...page.linkedAccounts} />
      <AuthenticatorsCard {...authenticators} unconfirmed={unconfirmed} />
      {authenticators.records.length > 0 ? <RecoveryCodesCard {...page.recoveryCodes} /> : null}
      <SessionsCard {...page.sessions} others={page.others} notice={notice} />
      <ConnectedAppsCard />
      <RecentActivityCard events={page.activity.events} />
      <YourDataCard />
      <DangerZoneCard />
    </Page>
  );
}
