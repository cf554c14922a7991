import { type MetaFunction, useLoaderData } from "@remix-run/react";
import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import { listEvents } from "../activity/list-events.ts";
import type { RouteHandle } from "../http/route-table.ts";
import { requireUser } from "../identity/user.ts";
import { listAuthenticators } from "../mfa/authenticators.ts";
import { recoveryState } from "../mfa/recovery-codes.ts";
import { AuthenticatorsCard } from "../settings/authenticators-card.tsx";
import { DangerZoneCard } from "../settings/danger-zone-card.tsx";
import { RecentActivityCard } from "../settings/recent-activity-card.tsx";
import { RecoveryCodesCard } from "../settings/recovery-codes-card.tsx";
import { SettingsPage } from "../ui/settings-page.tsx";

export const handle: RouteHandle = { hydrate: false };

export const meta: MetaFunction = () => [{ title: "Security · Gatehouse" }];

const eventsShown = 5;

/** Each card's part of the page is one line here: what it shows comes from its own feature. */
export async function loader({ request, context }: LoaderFunctionArgs) {
  const user = await requireUser(context, request);
  const { email, displayName } = user;
  const [activity, authenticators, recoveryCodes] = await Promise.all([
    listEvents(user, { limit: eventsShown, requestId: context.requestId }),
    listAuthenticators(context),
    recoveryState(context, user),
  ]);
  return {
    user: { email, displayName },
    activity,
    authenticators: authenticators.filter(({ verified }) => verified),
    recoveryCodes,
  };
}

/** The order is hardening's: what signs in first, then what watches, then what ends the account. */
export default function SecurityPage() {
  const { user, activity, authenticators, recoveryCodes } = useLoaderData<typeof loader>();
  return (
    <SettingsPage user={user} title="Security" lead="How you sign in, where you are signed in, and what happened.">
      <AuthenticatorsCard authenticators={authenticators} />
      {authenticators.length > 0 ? <RecoveryCodesCard {...recoveryCodes} /> : null}
      <RecentActivityCard events={activity.events} />
      <DangerZoneCard />
    </SettingsPage>
  );
}
