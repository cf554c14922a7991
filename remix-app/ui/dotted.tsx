import { Fragment, type ReactNode } from "react";

/** Short facts on one line. Each stands by itself: a name that is written from right to left turns around none beside it. */
export function Dotted({ facts }: { facts: readonly ReactNode[] }) {
  return facts.filter(Boolean).map((fact, index) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: they never move
    <Fragment key={index}>
      {index > 0 ? " · " : null}
      <bdi>{fact}</bdi>
    </Fragment>
  ));
}
