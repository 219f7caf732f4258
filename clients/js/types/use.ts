// What a type checker knows of the package. Never run: `test/types.test.js` has it checked.

import type { Client, Models, TablesDB } from 'node-appwrite';
import { asOf, freshness, type Instant, undo, validAt, validBetween } from 'tidemark';
import { type Versioned, versions } from 'tidemark';

type Is<A> = <T>() => T extends A ? 1 : 2;
type Equal<A, B> = Is<A> extends Is<B> ? true : false;
const same = <A, B>(_: Equal<A, B>): void => undefined;

interface Book extends Models.Row {
  title: string;
}

export async function reads(tables: TablesDB): Promise<void> {
  const queries: string[] = [asOf('2026-05-01'), validAt(1n), validBetween(1, null), versions()];
  const at = { databaseId: 'd', tableId: 't', queries };
  const page = await tables.listRows<Versioned<Book>>(at);
  const row = page.rows[0]!;
  same<typeof row.$validFrom, string>(true);
  same<typeof row.$validTo, string | null>(true);
  same<typeof row.$systemTo, string | null | undefined>(true);
  same<typeof row.title, string>(true);
  same<Instant, Date | string | number | bigint>(true);
  await tables.updateRow<Versioned<Book>>({
    ...at,
    rowId: row.$id,
    data: { title: 'x', $validFrom: '2100-01-01' },
  });
  // @ts-expect-error -- There is no such column.
  await tables.updateRow<Versioned<Book>>({ ...at, rowId: row.$id, data: { titel: 'x' } });
}

export async function undoes(client: Client): Promise<void> {
  const which = { databaseId: 'd', after: 1n, user: 'key:k', dryRun: true };
  const { rows, $systemFrom } = await undo(client, which);
  same<typeof $systemFrom, string | null>(true);
  const [change] = rows[0]!.changes;
  same<typeof change.$validTo, string | null>(true);
  // @ts-expect-error -- An instant is needed.
  await undo(client, { databaseId: 'd', user: 'key:k' });
  // @ts-expect-error -- There is no such member.
  await undo(client, { ...which, before: 1n });
}

export function isRefused(headers: { get(name: string): string | null }): void {
  // @ts-expect-error -- An instant is needed.
  asOf();
  // @ts-expect-error -- Null is no instant.
  validAt(null);
  // @ts-expect-error -- It takes nothing.
  versions(1);
  const fresh = freshness(headers);
  // @ts-expect-error -- It may be null.
  fresh.mark;
  if (fresh !== null) same<typeof fresh.mark, number | null>(true);
}
