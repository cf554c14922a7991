import type { AppLoadContext, LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { operationsOf, tagsOf } from "../../api-reference/describe.ts";
import { documentOf, isArea, originOf } from "../../api-reference/documents.ts";
import { referenceAreas } from "../../api-reference/navigation.ts";
import { OperationSection } from "../../api-reference/operation-section.tsx";
import tryScript from "../../api-reference/try-call.js?raw";
import type { TryVisitor } from "../../api-reference/try-call.tsx";
import { problem } from "../../http/problem.ts";
import { addReturnUrl } from "../../http/redirect-target.ts";
import { getUser, getUserLabel } from "../../session/user.ts";
import { pageTitle } from "../../ui/brand.ts";
import { InlineScript } from "../../ui/inline-script.tsx";
import { ReferencePage } from "../../ui/reference-page.tsx";
import { listWorkspaces } from "../../workspaces/list-workspaces.ts";

const workspacesShown = 20;

export const meta = pageTitle<typeof loader>((data) => `${data?.tag ?? "API reference"} · API reference`);

/** `GET /docs/api/{area}/{tag}`: the public reference of the calls with one tag. */
export async function loader({ params, context }: LoaderFunctionArgs) {
  const { area, tag: slug = "" } = params;
  if (!isArea(area)) throw problem("NOT_FOUND", { requestId: context.requestId });
  const document = documentOf(area);
  const tag = tagsOf(document).find((one) => one.slug === slug);
  if (!tag) throw problem("NOT_FOUND", { requestId: context.requestId });
  return {
    areas: referenceAreas(),
    current: `/docs/api/${area}/${slug}`,
    title: document.info.title,
    tag: tag.name,
    operations: operationsOf(document, { slug, origin: originOf(area, context) }),
    visitor: await findVisitor(context),
  };
}

/**
 * Returns the signed-in visitor with their first workspaces, or null. The page is public, so a failed lookup never
 * fails the page.
 */
async function findVisitor(context: AppLoadContext): Promise<TryVisitor | null> {
  const user = await getUser(context).catch(() => null);
  if (!user?.mfa.satisfied) return null;
  const query = { limit: workspacesShown, requestId: context.requestId };
  const { workspaces } = await listWorkspaces(user, query).catch(() => ({ workspaces: [] }));
  return { email: getUserLabel(user), workspaces: workspaces.map(({ id, name }) => ({ id, name })) };
}

export default function ApiReferenceTagPage() {
  const { areas, current, title, tag, operations, visitor } = useLoaderData<typeof loader>();
  return (
    <ReferencePage title={tag} lead={title} areas={areas} current={current}>
      {operations.length > 1 ? (
        <ul className="space-y-1">
          {operations.map(({ id, summary }) => (
            <li key={id}>
              <a href={`#${id}`} className="link">
                {summary}
              </a>
            </li>
          ))}
        </ul>
      ) : null}
      {operations.map((operation) => (
        <OperationSection
          key={operation.id}
          operation={operation}
          visitor={visitor}
          signInPath={addReturnUrl("/login", `${current}#${operation.id}`)}
        />
      ))}
      {visitor ? <InlineScript source={tryScript} /> : null}
    </ReferencePage>
  );
}
