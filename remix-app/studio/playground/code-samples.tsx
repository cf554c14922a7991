import { ChevronRight } from "lucide-react";
import { Snippet } from "../../ui/snippet.tsx";
import type { CodeSample } from "./request-code.ts";

/** The present request as code to take away, one language open at a time. */
export function CodeSamples({ samples }: { samples: readonly CodeSample[] }) {
  return (
    <section aria-labelledby="playground-code" className="rounded-card border border-line bg-surface p-4 sm:p-5">
      <h3 id="playground-code" className="font-semibold text-large">
        Copy as code
      </h3>
      <p className="mb-2 text-muted">
        The present request. Programs use a key of this workspace, which they take from <code>GATEHOUSE_API_KEY</code>.
      </p>
      {samples.map(({ label, code }) => (
        <details key={label} name="playground-code" className="group border-line not-last:border-b">
          <summary className="flex cursor-pointer items-center gap-1.5 rounded-button py-2 font-medium">
            <ChevronRight aria-hidden="true" className="size-4 shrink-0 text-muted group-open:rotate-90" />
            {label}
          </summary>
          <div className="pb-3">
            <Snippet label={label} code={code} />
          </div>
        </details>
      ))}
    </section>
  );
}
