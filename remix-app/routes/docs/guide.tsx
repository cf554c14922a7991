import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { getGuide, guidesByRole } from "../../guides/guides.ts";
import { problem } from "../../http/problem.ts";
import { pageTitle } from "../../ui/brand.ts";
import { CodeBlock } from "../../ui/code-block.tsx";
import { ReferencePage } from "../../ui/reference-page.tsx";

const minSectionsInContents = 3;

export const meta = pageTitle<typeof loader>((data) => {
  const title = data?.guide.title ?? "Documentation";
  return title === "Documentation" ? title : `${title} · Documentation`;
});

/** `GET /docs`, `GET /docs/{guide}` and `GET /docs/decisions/{guide}`: the public guides, from `docs/`. */
export function loader({ request, context }: LoaderFunctionArgs) {
  const path = new URL(request.url).pathname.replace(/\.data$|\/+$/, "");
  const guide = getGuide(path);
  if (!guide) throw problem("NOT_FOUND", { requestId: context.requestId });
  return { guide, current: path, areas: guidesByRole };
}

export default function GuidePage() {
  const { guide, current, areas } = useLoaderData<typeof loader>();
  const { id: titleId, title, sections, blocks } = guide;
  const isIndex = current === "/docs";
  return (
    <ReferencePage title={title} titleId={titleId} areas={areas} current={current} areasOnWideScreensOnly>
      {sections.length >= minSectionsInContents ? (
        <nav aria-label={isIndex ? "Roles" : "On this page"}>
          <ul className="flex flex-wrap gap-x-4 gap-y-1">
            {sections.map(({ id, text }) => (
              <li key={id}>
                <a href={`#${id}`} className="link">
                  {text}
                </a>
              </li>
            ))}
          </ul>
        </nav>
      ) : null}
      {blocks.map((block, index) =>
        "code" in block ? (
          // biome-ignore lint/suspicious/noArrayIndexKey: blocks of one text
          <CodeBlock key={index} label={block.label} name={block.section} code={block.code} />
        ) : (
          // biome-ignore lint/security/noDangerouslySetInnerHtml: rendered from our own documents
          // biome-ignore lint/suspicious/noArrayIndexKey: blocks of one text
          <div key={index} className="guide" dangerouslySetInnerHTML={{ __html: block.html }} />
        ),
      )}
    </ReferencePage>
  );
}
