CREATE TABLE "crm_accounts" (
	"crm" text NOT NULL,
	"account_id" text NOT NULL,
	"searched_until" timestamp with time zone NOT NULL,
	"search_at" timestamp with time zone NOT NULL,
	CONSTRAINT "crm_accounts_crm_account_id_pk" PRIMARY KEY("crm","account_id")
);
--> statement-breakpoint
ALTER TABLE "connections" ADD COLUMN "checked_at" timestamp with time zone DEFAULT now() NOT NULL;--> statement-breakpoint
ALTER TABLE "deal_events" ADD COLUMN "found_by" text DEFAULT 'webhook' NOT NULL;--> statement-breakpoint
CREATE INDEX "crm_accounts_search" ON "crm_accounts" USING btree ("search_at");--> statement-breakpoint
CREATE INDEX "connections_checked" ON "connections" USING btree ("checked_at");--> statement-breakpoint
CREATE INDEX "deal_events_deal" ON "deal_events" USING btree ("account_id","deal_id");--> statement-breakpoint
CREATE INDEX "deal_events_searched" ON "deal_events" USING btree ("account_id","deal_id") WHERE found_by = 'search';--> statement-breakpoint
-- Spread the checks of existing connections over a day.
UPDATE "connections" SET "checked_at" = now() - random() * interval '1 day';--> statement-breakpoint
-- Search the accounts that are connected already for changes since now.
INSERT INTO "crm_accounts" ("crm", "account_id", "searched_until", "search_at")
SELECT DISTINCT "provider", "account_id", now(), now() FROM "connections" WHERE "provider" = 'hubspot'
ON CONFLICT DO NOTHING;
