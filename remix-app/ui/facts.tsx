import { Fragment, type ReactNode } from "react";

/** Shows terms and their values, one below the other. */
export function FactList({ facts }: { facts: readonly (readonly [term: string, text: string])[] }) {
  return (
    <dl className="grid grid-cols-1 gap-x-8 gap-y-2 sm:grid-cols-[auto_1fr]">
      {facts.map(([term, text]) => (
        <div key={term} className="sm:contents">
          <dt className="text-muted">{term}</dt>
          <dd className="wrap-anywhere min-w-0 tabular-nums">{text}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Renders short facts on one line, each isolated so that a right-to-left name does not reorder the other facts. */
export function DotSeparated({ facts }: { facts: readonly ReactNode[] }) {
  return facts.filter(Boolean).map((fact, index) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: they never move
    <Fragment key={index}>
      {index > 0 ? " · " : null}
      <bdi>{fact}</bdi>
    </Fragment>
  ));
}
