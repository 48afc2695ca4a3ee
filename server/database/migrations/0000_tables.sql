CREATE TABLE "channels" (
	"id" text PRIMARY KEY NOT NULL,
	"name" text,
	"next_at" timestamp with time zone DEFAULT now() NOT NULL,
	"waits_since" timestamp with time zone DEFAULT now() NOT NULL,
	"due_at" timestamp with time zone,
	"failing" boolean DEFAULT false NOT NULL,
	"leased_by" uuid,
	"leased_until" timestamp with time zone
);
--> statement-breakpoint
CREATE TABLE "connections" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"user_id" uuid NOT NULL,
	"provider" text NOT NULL,
	"stand_in" boolean DEFAULT false NOT NULL,
	"secrets" text NOT NULL,
	"access_expires_at" timestamp with time zone,
	"account_id" text NOT NULL,
	"account_name" text,
	"grant_id" text NOT NULL,
	"channel_id" text,
	"channel_name" text,
	"channel_named_at" timestamp with time zone,
	"connected_at" timestamp with time zone NOT NULL,
	"connected_since" timestamp with time zone DEFAULT now() NOT NULL,
	"broken_reason" text,
	"broken_since" timestamp with time zone,
	"ask_again_at" timestamp with time zone,
	"refreshing_until" timestamp with time zone,
	"check_at" timestamp with time zone DEFAULT now() + random() * interval '1 day' NOT NULL,
	"check_asked" boolean DEFAULT false NOT NULL,
	"webhook_id" text,
	"late_since" timestamp with time zone,
	"searched_until" timestamp with time zone,
	CONSTRAINT "connections_user_provider" UNIQUE("user_id","provider")
);
--> statement-breakpoint
CREATE TABLE "crm_accounts" (
	"crm" text NOT NULL,
	"account_id" text NOT NULL,
	"searched_until" timestamp with time zone NOT NULL,
	"searched_at" timestamp with time zone DEFAULT now() NOT NULL,
	"search_at" timestamp with time zone NOT NULL,
	"paused_at" timestamp with time zone,
	CONSTRAINT "crm_accounts_crm_account_id_pk" PRIMARY KEY("crm","account_id")
);
--> statement-breakpoint
CREATE TABLE "crm_budgets" (
	"crm" text NOT NULL,
	"account_id" text NOT NULL,
	"day" date NOT NULL,
	"spent" integer NOT NULL,
	"most" integer,
	"remaining" integer,
	CONSTRAINT "crm_budgets_crm_account_id_pk" PRIMARY KEY("crm","account_id")
);
--> statement-breakpoint
CREATE TABLE "deal_events" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "deal_events_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"key" text NOT NULL,
	"crm" text NOT NULL,
	"account_id" text NOT NULL,
	"deal_id" text NOT NULL,
	"property" text NOT NULL,
	"value" text NOT NULL,
	"former" text,
	"occurred_at" timestamp with time zone NOT NULL,
	"received_at" timestamp with time zone DEFAULT now() NOT NULL,
	"found_by" text DEFAULT 'webhook' NOT NULL,
	CONSTRAINT "deal_events_key" UNIQUE("key")
);
--> statement-breakpoint
CREATE TABLE "deliveries" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "deliveries_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"event_id" bigint NOT NULL,
	"user_id" uuid NOT NULL,
	"channel" text NOT NULL,
	"state" text DEFAULT 'pending' NOT NULL,
	"occurred_at" timestamp with time zone NOT NULL,
	"attempts" integer DEFAULT 0 NOT NULL,
	"reason" text,
	"not_before" timestamp with time zone,
	"sending_until" timestamp with time zone,
	"form" text,
	"alone" boolean DEFAULT false NOT NULL,
	"finished_at" timestamp with time zone,
	"rule_id" text,
	"deal_name" text,
	"deal_url" text,
	"from_label" text,
	"to_label" text,
	CONSTRAINT "deliveries_event_user" UNIQUE("event_id","user_id")
);
--> statement-breakpoint
CREATE TABLE "key_check" (
	"id" integer PRIMARY KEY NOT NULL,
	"sealed" text NOT NULL
);
--> statement-breakpoint
-- Unlogged, so that a count costs no write to the log. A crash of the database empties the table.
CREATE UNLOGGED TABLE "recent_calls" (
	"key" text PRIMARY KEY NOT NULL,
	"made" timestamp with time zone[] NOT NULL
);
--> statement-breakpoint
CREATE TABLE "rules" (
	"user_id" uuid PRIMARY KEY NOT NULL,
	"rule_ids" jsonb NOT NULL,
	"saved_at" timestamp with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "sessions" (
	"token_hash" text PRIMARY KEY NOT NULL,
	"user_id" uuid NOT NULL,
	"created_at" timestamp with time zone NOT NULL,
	"expires_at" timestamp with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "used_tokens" (
	"hash" text PRIMARY KEY NOT NULL,
	"result" text,
	"expires_at" timestamp with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "users" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"crm" text,
	"crm_account_id" text,
	"crm_user_id" text,
	"created_at" timestamp with time zone DEFAULT now() NOT NULL,
	"seen_at" timestamp with time zone DEFAULT now() NOT NULL,
	"ended_through" bigint,
	CONSTRAINT "users_crm_identity" UNIQUE("crm","crm_account_id","crm_user_id")
);
--> statement-breakpoint
ALTER TABLE "connections" ADD CONSTRAINT "connections_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "deliveries" ADD CONSTRAINT "deliveries_event_id_deal_events_id_fk" FOREIGN KEY ("event_id") REFERENCES "public"."deal_events"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "deliveries" ADD CONSTRAINT "deliveries_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "rules" ADD CONSTRAINT "rules_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "sessions" ADD CONSTRAINT "sessions_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "channels_due_first" ON "channels" USING btree ("failing","due_at") WHERE due_at is not null and leased_until is null;--> statement-breakpoint
CREATE INDEX "channels_leased" ON "channels" USING btree ("leased_until") WHERE leased_until is not null;--> statement-breakpoint
CREATE INDEX "connections_account" ON "connections" USING btree ("provider","account_id");--> statement-breakpoint
CREATE INDEX "connections_grant" ON "connections" USING btree ("provider","grant_id");--> statement-breakpoint
CREATE INDEX "connections_check" ON "connections" USING btree ("check_asked","check_at");--> statement-breakpoint
CREATE INDEX "crm_accounts_search" ON "crm_accounts" USING btree ("search_at");--> statement-breakpoint
CREATE INDEX "deal_events_received" ON "deal_events" USING btree ("received_at");--> statement-breakpoint
CREATE INDEX "deal_events_same" ON "deal_events" USING btree ("account_id","deal_id","found_by","occurred_at");--> statement-breakpoint
CREATE INDEX "deliveries_pending" ON "deliveries" USING btree ("channel","occurred_at","id") WHERE state = 'pending';--> statement-breakpoint
CREATE INDEX "deliveries_next" ON "deliveries" USING btree ("channel","user_id","occurred_at","id") WHERE state = 'pending';--> statement-breakpoint
CREATE INDEX "deliveries_alone" ON "deliveries" USING btree ("channel","occurred_at","id") WHERE state = 'pending' and alone;--> statement-breakpoint
CREATE INDEX "deliveries_oldest" ON "deliveries" USING btree ("id") WHERE state = 'pending';--> statement-breakpoint
CREATE INDEX "deliveries_claimed" ON "deliveries" USING btree ("user_id") WHERE sending_until is not null;--> statement-breakpoint
CREATE INDEX "deliveries_activity" ON "deliveries" USING btree ("user_id","state","occurred_at","id");--> statement-breakpoint
CREATE INDEX "deliveries_counted" ON "deliveries" USING btree ("user_id","rule_id","state","occurred_at") WHERE state in ('sent', 'dead');--> statement-breakpoint
CREATE INDEX "sessions_user" ON "sessions" USING btree ("user_id");--> statement-breakpoint
CREATE INDEX "used_tokens_expires" ON "used_tokens" USING btree ("expires_at");--> statement-breakpoint
-- A backlog of this size may be small beside the rows of 30 days, and yet its index must not be read as a whole.
ALTER TABLE "deliveries" SET (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000);
