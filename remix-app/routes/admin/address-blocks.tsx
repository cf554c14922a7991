import type { LoaderFunctionArgs } from "@remix-run/node";
import { useLoaderData } from "@remix-run/react";
import { AddressBlockTable } from "../../admin/address-block-table.tsx";
import { listAddressBlocks, readAddress } from "../../admin/address-blocks.ts";
import { requireInfrastructureAdmin } from "../../admin/require-admin.ts";
import { SearchCard } from "../../admin/search-card.tsx";
import { searchTerm } from "../../http/search-params.ts";
import { pageTitle } from "../../ui/brand.ts";
import { Card } from "../../ui/card.tsx";
import { Notice } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";

export const meta = pageTitle("Blocked IP addresses · Console");

export async function loader({ request, context }: LoaderFunctionArgs) {
  await requireInfrastructureAdmin(context, request);
  const term = searchTerm(request);
  const address = readAddress(term);
  const found = term && !address ? null : await listAddressBlocks(context, { address });
  return { term, found, done: new URL(request.url).searchParams.has("done") };
}

export default function ConsoleAddressBlocksPage() {
  const { term, found, done } = useLoaderData<typeof loader>();
  return (
    <Page
      title="Blocked IP addresses"
      lead="Sign-ins and other attempts from these IP addresses are refused for a while, because too many failed."
    >
      {done ? <Notice tone="good">Block lifted. Rate limits still apply to the IP address.</Notice> : null}
      <SearchCard title="Find an IP address" label="IPv4 or IPv6 address" term={term} />
      {found ? (
        <Card
          title={term ? `Blocks of ${term} in the last 30 days` : "Active blocks"}
          lead={found.more ? "The 50 that last longest. Search for an IP address to see its blocks." : undefined}
        >
          <AddressBlockTable
            blocks={found.blocks}
            empty={term ? "This IP address wasn’t blocked in the last 30 days." : "No IP address is blocked now."}
          />
        </Card>
      ) : (
        <Notice tone="warn">Enter a whole IP address, such as 203.0.113.7 or 2001:db8::7.</Notice>
      )}
    </Page>
  );
}
