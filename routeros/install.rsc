# wattle on RouterOS 7.6 or later (7.21 or later recommended): a container, its network and its place in the firewall.
# Edit the settings, copy this file and the image's tar to the router, then:  /import file-name=install.rsc
# check.rsc and update.rsc run this file, too. Everything made here carries the comment or the name below; uninstall.rsc removes it.

# ---- settings ----------------------------------------------------------------------------------------------------
# Name of the interface, and the mark on everything made here: at most 14 letters and digits.
:local name "wattle"
# The image: a tar on the router, or (file "") the name of an image in the registry of /container/config.
:local file "wattle-arm64.tar"
:local image ""
# The disk, by its slot in /disk, ext4 or btrfs; "" is the internal flash (only where it is 128 MB or more).
:local disk "usb1"
# UDP port of the mesh, "listen" in wattle.json. 500 and 4500 would be taken from the router's own IPsec and L2TP.
:local port 4501
# The link between router and container: a /30 that nothing else uses.
:local routerAddress "172.31.255.1"
:local containerAddress "172.31.255.2"
# The same for IPv6, addresses of one /64 that is routed to this router; "" leaves IPv6 out.
:local routerAddress6 ""
:local containerAddress6 ""
# What the router shall send into the mesh, comma-separated prefixes; "" sets no routes.
:local routes "10.66.0.0/16"
# Name servers of the container; "" is the router, or what the router uses itself.
:local dns ""
# Interface lists: the default configuration has both.
:local lan "LAN"
:local wan "WAN"
# error, warn, info, debug or trace
:local log "info"
# yes: larger socket buffers and less loss under load, for more rights on the router (7.24 and later only).
:local privileged "no"

# ---- preflight: reads only ---------------------------------------------------------------------------------------
:global wattleMode
:local mode "install"
:if ([:typeof $wattleMode] = "str") do={ :set mode $wattleMode }
:set wattleMode

:local problems ""
:local notes ""

:local version [/system/resource/get version]
:local dot [:find $version "."]
:local major [:tonum [:pick $version 0 $dot]]
:local rest [:pick $version ($dot + 1) [:len $version]]
:local digits 0
:while (($digits < [:len $rest]) && ([:typeof [:find "0123456789" [:pick $rest $digits ($digits + 1)]]] = "num")) do={ :set digits ($digits + 1) }
:local minor [:tonum [:pick $rest 0 $digits]]
:if (($major != 7) || ($minor < 6)) do={ :set problems ($problems . "\n- RouterOS $version: 7.6 or later is needed, 7.21 or later recommended") }

:local architecture [/system/resource/get architecture-name]
:local wanted ""
:if ($architecture = "arm64") do={ :set wanted "arm64" }
:if ($architecture = "x86_64") do={ :set wanted "amd64" }
:if ($architecture = "x86") do={ :set wanted "amd64" }
:if ($architecture = "arm") do={
  :set wanted "armv7"
  # A CPU that takes ARMv5 code only (EN7562CT): the armv7 image dies there with signal 4.
  :local model ""
  :do { :local read [:parse ":return [/system/routerboard/get model]"]; :set model [$read] } on-error={}
  :local board [/system/resource/get board-name]
  :foreach mark in={"E50UG"; "E60iUGS"; "hEX refresh"; "hAP ax S"} do={
    :if (([:typeof [:find $model $mark]] = "num") || ([:typeof [:find $board $mark]] = "num")) do={ :set wanted "armv5" }
  }
}
:if ($wanted = "") do={ :set problems ($problems . "\n- architecture $architecture: containers run on arm, arm64 and x86_64 only") }

:local packages 0
:do { :set packages [:len [/system/package/find where name="container" and disabled=no]] } on-error={}
:local menu "no"
:do { :local look [:parse "/container/print count-only"]; :set menu "yes" } on-error={}
:if (($packages = 0) || ($menu = "no")) do={ :set problems ($problems . "\n- the container package is missing: install container-*.npk of this version, then reboot") }

:local allowed "no"
:do { :local read [:parse ":return [/system/device-mode/get container]"]; :set allowed [:tostr [$read]] } on-error={}
:if (($allowed != "true") && ($allowed != "yes")) do={ :set problems ($problems . "\n- device mode forbids containers: /system/device-mode/update container=yes, then press the button or cut the power within 5 minutes") }

:local memory [/system/resource/get free-memory]
:if ($memory < 25165824) do={ :set problems ($problems . "\n- only $memory octets of memory are free: 24 MB are needed") }

:if (($file = "") = ($image = "")) do={ :set problems ($problems . "\n- settings: give either file or image") }
:if (($file != "") && ([:len [/file/find where name=$file]] = 0)) do={ :set problems ($problems . "\n- $file is not on the router: copy the image there, or correct the setting file") }
:if (($file != "") && ([:typeof [:find $file $wanted]] != "num")) do={ :set notes ($notes . "\n- this device needs the image wattle-$wanted.tar; is $file that one?") }

:local base ""
:if ($disk != "") do={
  :set base ($disk . "/")
  :local slots [/disk/find where slot=$disk]
  :if ([:len $slots] = 0) do={ :set problems ($problems . "\n- there is no disk $disk: /disk/print shows the slots (a USB disk needs up to 30 s after the start)") }
  :foreach slot in=$slots do={
    :local fs ""
    :do { :set fs [:tostr [/disk/get $slot fs]] } on-error={}
    :if (($fs = "fat32") || ($fs = "exfat") || ($fs = "ntfs")) do={ :set problems ($problems . "\n- $disk is $fs, on which containers fail: format it as ext4") }
    :if ($fs = "tmpfs") do={ :set problems ($problems . "\n- $disk is in memory: the container would be gone after a reboot") }
  }
}

:if (([:len $name] = 0) || ([:len $name] > 14)) do={ :set problems ($problems . "\n- settings: the name has to have 1 to 14 characters") }
:foreach list in={$lan; $wan} do={
  :if ([:len [/interface/list/find where name=$list]] = 0) do={ :set problems ($problems . "\n- there is no interface list $list: correct the setting, or make it with /interface/list/add name=$list and add its interfaces") }
}

:local installed 0
:if ($menu = "yes") do={ :local read [:parse (":return [:len [/container/find where comment=\"" . $name . "\"]]")]; :set installed [$read] }
:if ($mode = "update") do={
  :if ($installed = 0) do={ :set problems ($problems . "\n- there is no container with the comment $name: nothing to update") }
} else={
  :if ($installed > 0) do={ :set problems ($problems . "\n- $name is installed already: update.rsc takes a new image, uninstall.rsc removes it") }
  :if (($installed = 0) && ([:len [/interface/find where name=$name]] > 0)) do={ :set problems ($problems . "\n- there is an interface $name already: run uninstall.rsc if it is a rest of wattle, else choose another name") }
  :if ([:len [/ip/address/find where address=($routerAddress . "/30")]] > 0) do={ :set problems ($problems . "\n- the router has the address $routerAddress already: choose another /30") }
  :foreach rule in=[/ip/firewall/nat/find where chain="dstnat" and protocol="udp" and disabled=no] do={
    :if ([:tostr [/ip/firewall/nat/get $rule dst-port]] = [:tostr $port]) do={ :set problems ($problems . "\n- UDP port $port is forwarded elsewhere by /ip/firewall/nat: choose another port") }
  }
}
:if ((($port = 500) || ($port = 4500)) && ([:len [/ip/ipsec/peer/find where disabled=no]] > 0)) do={ :set problems ($problems . "\n- UDP port $port belongs to the router's own IPsec, which has peers: choose another port") }

:if ($dns = "") do={
  :if ([:tostr [/ip/dns/get allow-remote-requests]] = "true") do={ :set dns $routerAddress } else={
    :set dns [:tostr [/ip/dns/get servers]]
    :if ($dns = "") do={ :set dns [:tostr [/ip/dns/get dynamic-servers]] }
  }
}
# An array of servers comes as text with semicolons.
:while ([:typeof [:find $dns ";"]] = "num") do={ :local at [:find $dns ";"]; :set dns ([:pick $dns 0 $at] . "," . [:pick $dns ($at + 1) [:len $dns]]) }
:if ($dns = "") do={ :set problems ($problems . "\n- no name server is known, without which no container starts: set dns") }

:if (($containerAddress6 = "") != ($routerAddress6 = "")) do={ :set problems ($problems . "\n- settings: give both IPv6 addresses or none") }
:if ($containerAddress6 != "") do={
  :if ($minor < 11) do={ :set problems ($problems . "\n- RouterOS $version: IPv6 for containers needs 7.11 or later; leave the IPv6 addresses empty") }
  :if ([:tostr [/ipv6/settings/get disable-ipv6]] = "true") do={ :set problems ($problems . "\n- IPv6 is turned off: /ipv6/settings/set disable-ipv6=no, or leave the IPv6 addresses empty") }
}
:if (($privileged = "yes") && ($minor < 24)) do={ :set notes ($notes . "\n- privileged needs 7.24 or later and is left out") }

:if ($notes != "") do={ :put ("wattle: note:" . $notes) }
:if ($problems != "") do={
  :put ("wattle: nothing was changed. To be put right:" . $problems)
  :error "wattle: preflight failed, nothing was changed"
}
:put "wattle: preflight passed: RouterOS $version, image for $wanted, UDP port $port"

# ---- what the versions have in common with their own words -------------------------------------------------------
# Unknown options end a whole script before its first line runs: what differs is put together as text and parsed when it is wanted.
:local mountGroup "name"
:local envGroup "name"
:local options "envlist=$name mounts=$name"
:if ($minor = 20) do={ :set envGroup "list"; :set options "envlists=$name mounts=$name" }
:if ($minor >= 21) do={ :set envGroup "list"; :set mountGroup "list"; :set options "envlists=$name mountlists=$name" }
:if ($minor >= 19) do={ :set options ($options . " name=$name") }
:if (($minor >= 20) && ($minor <= 22)) do={ :set options ($options . " auto-restart-interval=30s") }
:if ($minor >= 23) do={ :set options ($options . " restart-policy=on-failure restart-interval=30s memory-max=67108864") }
:if (($minor >= 24) && ($privileged = "yes")) do={ :set options ($options . " privileged=yes") }
:if ($file != "") do={ :set options ($options . " file=\"$file\"") } else={ :set options ($options . " remote-image=\"$image\"") }
:set options ($options . " interface=$name root-dir=\"" . $base . "wattle-root\" hostname=$name dns=$dns logging=yes start-on-boot=yes comment=\"$name\"")

# How many containers with this comment are in this state: a property up to some version, a flag since.
:local inState do={
  :local found 0
  :do { :local read [:parse (":return [:len [/container/find where comment=\"" . $name . "\" and status=\"" . $state . "\"]]")]; :set found [$read] } on-error={}
  :if ($found = 0) do={
    :do { :local read [:parse (":return [:len [/container/find where comment=\"" . $name . "\" and " . $state . "]]")]; :set found [$read] } on-error={}
  }
  :return $found
}

:if ($mode != "check") do={
  :local step "start"
  :do {
    :if ($mode = "update") do={
      # ---- update: only the container goes; its network, environment and mounted folder stay -------------------------
      :set step "stopping the old container"
      :do { :local stop [:parse "/container/stop [/container/find where comment=\"$name\"]"]; $stop } on-error={}
      :local waited 0
      :while (([$inState name=$name state="stopped"] = 0) && ($waited < 60)) do={ :delay 1s; :set waited ($waited + 1) }
      :set step "removing the old container"
      :local remove [:parse "/container/remove [/container/find where comment=\"$name\"]"]
      $remove
      :local count [:parse ":return [:len [/container/find where comment=\"$name\"]]"]
      :set waited 0
      :while (([$count] > 0) && ($waited < 120)) do={ :delay 1s; :set waited ($waited + 1) }
    } else={
      # ---- network -------------------------------------------------------------------------------------------------
      :set step "the link"
      :if ($containerAddress6 = "") do={
        /interface/veth/add name=$name address=($containerAddress . "/30") gateway=$routerAddress comment=$name
      } else={
        :local add [:parse "/interface/veth/add name=$name address=$containerAddress/30,$containerAddress6/64 gateway=$routerAddress gateway6=$routerAddress6 comment=\"$name\""]
        $add
      }
      /ip/address/add address=($routerAddress . "/30") interface=$name comment=$name
      /interface/list/member/add list=$lan interface=$name comment=$name
      :set step "the firewall"
      /ip/firewall/nat/add chain=srcnat action=masquerade src-address=$containerAddress out-interface-list=$wan comment=$name
      /ip/firewall/nat/add chain=dstnat action=dst-nat protocol=udp dst-port=$port in-interface-list=$wan to-addresses=$containerAddress to-ports=$port comment=$name
      # Before the first rule that is not the router's own; in an empty table there is nothing to stand before.
      :local rules [/ip/firewall/filter/find where chain="forward" and dynamic=no]
      :if ([:len $rules] > 0) do={
        /ip/firewall/filter/add chain=forward action=accept protocol=udp dst-address=$containerAddress dst-port=$port comment=$name place-before=[:pick $rules 0]
      } else={
        /ip/firewall/filter/add chain=forward action=accept protocol=udp dst-address=$containerAddress dst-port=$port comment=$name
      }
      :set step "the rule against loops"
      /routing/rule/add src-address=($containerAddress . "/32") action=lookup-only-in-table table=main comment=$name
      :if ($containerAddress6 != "") do={
        :set step "IPv6"
        /ipv6/address/add address=($routerAddress6 . "/64") interface=$name advertise=no comment=$name
        :local rules6 [/ipv6/firewall/filter/find where chain="forward" and dynamic=no]
        :if ([:len $rules6] > 0) do={
          /ipv6/firewall/filter/add chain=forward action=accept protocol=udp dst-address=($containerAddress6 . "/128") dst-port=$port comment=$name place-before=[:pick $rules6 0]
        } else={
          /ipv6/firewall/filter/add chain=forward action=accept protocol=udp dst-address=($containerAddress6 . "/128") dst-port=$port comment=$name
        }
        /routing/rule/add src-address=($containerAddress6 . "/128") action=lookup-only-in-table table=main comment=$name
      }
      :set step "the routes into the mesh"
      :foreach prefix in=[:toarray $routes] do={
        /ip/route/add dst-address=$prefix gateway=$containerAddress check-gateway=ping comment=$name
      }
      # ---- what the container gets -----------------------------------------------------------------------------------
      :set step "environment and mounts"
      :local env [:parse "/container/envs/add $envGroup=$name key=WATTLE_LOG value=\"$log\""]
      $env
      :local mount [:parse ("/container/mounts/add $mountGroup=$name src=\"" . $base . "wattle\" dst=\"/etc/wattle\"")]
      $mount
      :set step "the folder for pulling images"
      :if ($image != "") do={
        :local read [:parse ":return [/container/config/get tmpdir]"]
        :if ([:tostr [$read]] = "") do={ :local set [:parse ("/container/config/set tmpdir=\"" . $base . "wattle-tmp\"")]; $set }
      }
    }
    # ---- the container -----------------------------------------------------------------------------------------------
    :set step "adding the container ($options)"
    :local add [:parse ("/container/add " . $options)]
    $add
    :set step "unpacking the image: /log/print says why"
    :local waited 0
    :while (([$inState name=$name state="stopped"] = 0) && ($waited < 300)) do={ :delay 1s; :set waited ($waited + 1) }
    :if ([$inState name=$name state="stopped"] = 0) do={ :error "the image was not unpacked within 5 minutes" }
    :set step "starting the container: /log/print says why"
    :local start [:parse "/container/start [/container/find where comment=\"$name\"]"]
    $start
    :set waited 0
    :while (([$inState name=$name state="running"] = 0) && ($waited < 30)) do={ :delay 1s; :set waited ($waited + 1) }
    :if ([$inState name=$name state="running"] = 0) do={ :error "the container does not run" }
  } on-error={
    :put "wattle: failed at $step"
    :put "wattle: uninstall.rsc removes what was made; docs/routeros.md has the cures"
    :error "wattle: failed at $step"
  }
  :put ("wattle: running. Its configuration is " . $base . "wattle/wattle.json; what it says: /log/print where topics~\"container\"")
}
