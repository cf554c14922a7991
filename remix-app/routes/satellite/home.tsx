import { type MetaFunction, useLoaderData } from "@remix-run/react";
import type { LoaderFunctionArgs } from "@remix-run/server-runtime";
import type { RouteHandle } from "../../http/route-table.ts";
import { getAppUser } from "../../satellites/own/app-user.ts";
import { satelliteOf } from "../../satellites/own/satellite-context.ts";
import { listOwnWorkspaces } from "../../satellites/own/workspaces.ts";
import { useBrand } from "../../ui/brand.ts";
import { Button, ButtonLink } from "../../ui/button.tsx";
import { EntryPage } from "../../ui/entry-page.tsx";
import { PageNav } from "../../ui/page-nav.tsx";

export const handle: RouteHandle = { side: "satellite" };

export const meta: MetaFunction<typeof loader> = ({ data }) => [{ title: data?.appName ?? "Home" }];

export async function loader({ request, context }: LoaderFunctionArgs) {
  const name = satelliteOf(context).env.APP_NAME;
  const appName = name.charAt(0).toUpperCase() + name.slice(1);
  const user = await getAppUser(context);
  const cursor = new URL(request.url).searchParams.get("cursor");
  const page = user ? await listOwnWorkspaces(context, { request, cursor }) : { workspaces: [], nextCursor: null };
  return { appName, user, ...page };
}

export default function SatelliteHomePage() {
  const { appName, user, workspaces, nextCursor } = useLoaderData<typeof loader>();
  const { name } = useBrand();
  if (!user) {
    return (
      <EntryPage title={appName} lead={`Sign in with your ${name} account to continue.`} themeSwitch={false}>
        <ButtonLink href="/sign-in" variant="primary" className="w-full">
          Sign in
        </ButtonLink>
      </EntryPage>
    );
  }
  return (
    <EntryPage
      title={appName}
      themeSwitch={false}
      lead={
        <>
          Signed in as <strong className="break-words font-semibold">{user.email ?? user.name ?? user.id}</strong>
        </>
      }
    >
      <section className="space-y-3">
        <h2 className="font-semibold text-large">Your workspaces</h2>
        {workspaces.length === 0 ? <p className="text-muted">You’re not in a workspace yet.</p> : null}
        <ul className="space-y-2">
          {workspaces.map(({ id, name, role }) => (
            <li key={id} className="rounded-card border border-line bg-surface p-3">
              <a className="link break-words font-medium" href={`/w/${id}`}>
                {name}
              </a>
              <p className="text-muted text-small first-letter:uppercase">{role}</p>
            </li>
          ))}
        </ul>
        <PageNav label="Pages of workspaces" nextCursor={nextCursor} />
      </section>
      <form method="post" action="/sign-out">
        <Button variant="secondary">Sign out of {appName}</Button>
      </form>
    </EntryPage>
  );
}
